// Search without a server. A browser starts no worker from a file: pages that are opened as files
// get one made of a hidden frame, which runs the same script and passes the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      const script = JSON.stringify(String(new URL(address, document.baseURI)));
      frame.srcdoc = `<script>
        var postMessage = data => parent.dispatchEvent(
          new MessageEvent("frame-worker", { data, source: window }));
        var importScripts = (...names) => names.reduce((before, name) => before.then(() =>
          new Promise((done, failed) => {
            const tag = document.createElement("script");
            tag.src = new URL(name, ${script});
            tag.onload = done;
            tag.onerror = failed;
            document.head.append(tag);
          })), Promise.resolve());
      <\/script><script src=${script}><\/script>`;
      window.addEventListener("frame-worker", event => {
        if (event.source !== frame.contentWindow) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      });
      frame.addEventListener("load", () => {
        this.frame = frame;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      });
      document.body.append(frame);
    }

    postMessage(data) {
      if (!this.frame) {
        this.waiting.push(data);
        return;
      }
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      if (this.frame) this.frame.remove();
    }
  };
}
