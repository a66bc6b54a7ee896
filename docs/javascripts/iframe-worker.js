// Browsers start no workers for pages that were opened from disk. There, a hidden frame does their work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow, script = frame.contentDocument.createElement("script");
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = () => {};
      this.ready = new Promise((resolve) => { script.onload = () => resolve(inner); });
      script.src = new URL(address, location);
      frame.contentDocument.body.append(script);
    }
    async postMessage(data) {
      (await this.ready).dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {}
  };
}
