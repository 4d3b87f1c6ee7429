// An HTTP server, and a client that asks it with several connections at once: `Server serve`, `Server ask HOST REQUESTS`.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Server {
    static final int CONNECTIONS = 8;
    static final int ANSWER_BYTES = 4096;

    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) {
            serve();
        } else {
            ask(words[1], Integer.parseInt(words[2]));
        }
    }

    static void serve() throws Exception {
        byte[] answer = new byte[ANSWER_BYTES];
        HttpServer server = HttpServer.create(new InetSocketAddress(8000), 0);
        server.setExecutor(Executors.newFixedThreadPool(CONNECTIONS));
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }

    static void ask(String host, int requests) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + host + ":8000/")).build();
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        ExecutorService askers = Executors.newFixedThreadPool(CONNECTIONS);
        List<Future<Void>> asking = new ArrayList<>();
        long beginNs = System.nanoTime();
        for (int connection = 0; connection < CONNECTIONS; connection++) {
            Callable<Void> asker = () -> {
                for (int number = 0; number < requests / CONNECTIONS; number++) {
                    client.send(request, HttpResponse.BodyHandlers.ofByteArray());
                }
                return null;
            };
            asking.add(askers.submit(asker));
        }
        for (Future<Void> asker : asking) {
            asker.get();
        }
        System.out.printf("measured %.0f requests/s%n", requests * 1e9 / (System.nanoTime() - beginNs));
        System.exit(0);
    }
}
