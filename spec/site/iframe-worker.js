// The search of the theme, on pages that are opened from the disk and for words with hyphens.
//
// A browser starts no worker from a file, so the worker's script runs in a hidden frame of the page
// instead. The theme looks for a shim under this name, and would load one from another site.

const QUERY = 2; // the kind of a message of the theme's search

// For the search, `-` excludes a word. Here a rule, such as K-51, is one thing, and so is --dry-run.
function spelled(message) {
  if (message.type !== QUERY) return message;
  const words = message.data.replace(/(^|\s)-+(?=\w)/g, "$1");
  return {...message, data: words.replace(/\w+(?:-\w+)+/g, (word) => `"${word.replaceAll("-", " ")}"`)};
}

class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    this.inside = frame.contentWindow;
    this.waiting = []; // messages that came before the script was loaded

    const page = this.inside.document;
    page.open();
    page.write("<!DOCTYPE html><title>search</title><body></body>");
    page.close();
    this.inside.postMessage = (data) => {
      this.dispatchEvent(new MessageEvent("message", {data}));
    };
    this.inside.importScripts = async (...urls) => {
      for (const each of urls) await this.load(each);
    };
    this.load(url).then(() => {
      const waiting = this.waiting;
      this.waiting = null;
      for (const message of waiting) this.postMessage(message);
    });
  }

  load(url) {
    return new Promise((resolve, reject) => {
      const script = this.inside.document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`cannot load ${url}`));
      this.inside.document.body.appendChild(script);
    });
  }

  postMessage(message) {
    if (this.waiting) this.waiting.push(message);
    else this.inside.dispatchEvent(new MessageEvent("message", {data: spelled(message)}));
  }

  terminate() {
    this.inside.frameElement.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
} else {
  window.Worker = class extends Worker {
    postMessage(message) {
      super.postMessage(spelled(message));
    }
  };
}
