// An HTTP server, and a client that asks it with several connections at once: `server serve`, `server ask HOST REQUESTS`.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

const connections = 8
const answerBytes = 4096

func serve() error {
	answer := make([]byte, answerBytes)
	return http.ListenAndServe(":8000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(answer) }))
}

func ask(host string, requests int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	failures := make(chan error, connections)
	var asking sync.WaitGroup
	begin := time.Now()
	for connection := 0; connection < connections; connection++ {
		asking.Add(1)
		go func() {
			defer asking.Done()
			for request := 0; request < requests/connections; request++ {
				response, err := client.Get("http://" + host + ":8000/")
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
				if err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	asking.Wait()
	taken := time.Since(begin)
	close(failures)
	for err := range failures {
		return err
	}
	fmt.Printf("measured %.0f requests/s\n", float64(requests)/taken.Seconds())
	return nil
}

func main() {
	var err error
	if os.Args[1] == "serve" {
		err = serve()
	} else {
		requests, _ := strconv.Atoi(os.Args[3])
		err = ask(os.Args[2], requests)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
