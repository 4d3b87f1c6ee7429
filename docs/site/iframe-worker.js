// Browsers start no workers for pages that are opened as files, so the site's search would not run there. Its worker runs in a
// frame of the page instead. The theme asks for `IFrameWorker` where it loads what the search needs.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = (this.inside = frame.contentWindow);
      this.told = this.load(inside, url);
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => this.load(inside, next)), Promise.resolve());
    }

    load(inside, url) {
      return new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = reject;
        inside.document.body.appendChild(script);
      });
    }

    // What is told before the script is there waits for it.
    postMessage(data) {
      this.told = this.told.then(() => inside_event(this.inside, data));
    }

    terminate() {
      this.inside.frameElement.remove();
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }
  };
  const inside_event = (inside, data) => void inside.dispatchEvent(new inside.MessageEvent("message", { data }));
  window.Worker = window.IFrameWorker;
}
