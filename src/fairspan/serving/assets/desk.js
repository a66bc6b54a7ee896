"use strict";
(() => {
  const { examples, most_bytes: mostBytes } = JSON.parse(document.getElementById("desk").textContent);
  const one = (name, inside = document) => inside.querySelector(`[data-${name}]`);
  const text = document.getElementById("text"), borders = document.getElementById("borders");
  const key = document.getElementById("key"), shown = one("shown"), files = one("files");
  // `html` is of the text and the borders that the document had when it was asked for.
  let documents = examples.map((example) => ({ ...example, borders: "auto", html: "" }));
  let chosen = 0, made = 0, busy = false;

  const size = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

  // --- the server

  const KEY = "fairspan-key";
  const takeKey = (refused) => new Promise((resolve) => {
    const form = one("key");
    form.hidden = false;
    one("key-error").textContent = refused ? "The server refuses this key." : "";
    key.focus();
    form.onsubmit = (event) => {
      event.preventDefault();
      if (!/^[\x21-\x7e]+$/.test(key.value.trim())) {
        one("key-error").textContent = "A key has letters, digits and signs of ASCII only.";
        return;
      }
      sessionStorage.setItem(KEY, key.value.trim());
      key.value = "";
      form.hidden = true;
      resolve();
    };
  });
  const ask = async (path, body) => {
    const held = sessionStorage.getItem(KEY);
    const headers = { "Content-Type": "application/json", ...(held && { Authorization: `Bearer ${held}` }) };
    const content = body && JSON.stringify(body);
    // A server that refuses a body while it is being sent is not heard.
    if (content && new Blob([content]).size > mostBytes) throw new Error(`The document has more than ${size(mostBytes)}: use a shorter one.`);
    let reply;
    try {
      reply = await fetch(path, { headers, ...(content && { method: "POST", body: content }) });
    } catch {
      throw new Error("The server does not answer.");
    }
    if (reply.status === 401) {
      sessionStorage.removeItem(KEY);
      await takeKey(held);
      return ask(path, body);
    }
    const said = await reply.json().catch(() => null);
    if (!reply.ok || said === null) throw new Error(said?.error?.message ?? `The server answers ${reply.status}.`);
    return said;
  };

  // --- what is shown

  const say = (words, isBusy = false) => {
    one("status").textContent = words;
    one("status").classList.toggle("busy", isBusy);
  };
  const complain = (words) => {
    one("error").textContent = words;
    one("error").hidden = !words;
  };
  const put = (html) => {
    shown.innerHTML = html;
    shown.hidden = !html;
  };
  const show = () => {
    const current = documents[chosen];
    one("list").querySelectorAll("label").forEach((label) => label.remove());
    documents.forEach(({ name }, place) => {
      const label = document.createElement("label"), input = document.createElement("input"), words = document.createElement("bdi");
      Object.assign(input, { type: "radio", name: "document", checked: place === chosen });
      input.addEventListener("change", () => choose(place));
      words.textContent = name;
      label.append(input, words);
      one("list").append(label);
    });
    one("name").textContent = current.name;
    text.value = current.text;
    borders.value = current.borders;
    put(current.html);
  };
  const choose = (place) => {
    chosen = place;
    complain("");
    show();
    one("list").querySelector("input:checked").focus();
  };
  const inspect = async () => {
    if (busy) return;
    busy = true;
    const controls = [...document.querySelectorAll(".desk :is(button, input, textarea, select)")];
    const focused = document.activeElement;
    for (const control of controls) control.disabled = true;
    complain("");
    put("");
    say("Reading…", true);
    const current = documents[chosen], { name, text, borders } = current;
    try {
      current.html = (await ask("page/inspect", { name, text, borders })).html;
    } catch (error) {
      complain(error.message);
    }
    for (const control of controls) control.disabled = false;
    busy = false;
    say("");
    focused?.focus?.({ preventScroll: true });
    put(current.html);
    if (current.html) shown.scrollIntoView({ block: "start" });
  };

  // --- what somebody does

  const add = (name, content) => {
    // A document that nobody has written anything into gives way to the next.
    documents = documents.filter((document) => document.text.trim());
    documents.push({ name, text: content, borders: "auto", html: "" });
    choose(documents.length - 1);
  };
  const edited = () => {
    Object.assign(documents[chosen], { text: text.value, borders: borders.value, html: "" });
    put("");
  };
  const read = async (chosenFiles) => {
    complain("");
    for (const file of chosenFiles) {
      if (file.size > mostBytes) {
        complain(`${file.name} has ${size(file.size)}, and the page takes ${size(mostBytes)}.`);
        continue;
      }
      let content = "\0";
      try {
        content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      } catch { /* said below */ }
      if (content.includes("\0")) complain(`${file.name} is no UTF-8 text.`);
      else if (!content.trim()) complain(`${file.name} is empty.`);
      else add(file.name, content);
    }
  };
  const isFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const dropping = (on) => document.querySelector(".desk").classList.toggle("dropping", on);

  one("documents").addEventListener("submit", (event) => {
    event.preventDefault();
    inspect();
  });
  text.addEventListener("input", edited);
  borders.addEventListener("change", edited);
  one("new").addEventListener("click", () => {
    made += 1;
    add(`Document ${made}`, "");
    text.focus();
  });
  one("remove").addEventListener("click", () => {
    documents.splice(chosen, 1);
    if (!documents.length) documents.push({ name: `Document ${(made += 1)}`, text: "", borders: "auto", html: "" });
    choose(Math.min(chosen, documents.length - 1));
  });
  one("choose").addEventListener("click", () => files.click());
  files.addEventListener("change", async () => {
    await read([...files.files]);
    files.value = "";
  });
  document.addEventListener("dragover", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    dropping(true);
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) dropping(false); });
  document.addEventListener("drop", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    dropping(false);
    if (!busy) read([...event.dataTransfer.files]);
  });
  shown.addEventListener("click", (event) => {
    const button = event.target.closest("[data-whole]");
    if (button) button.setAttribute("aria-pressed", shown.classList.toggle("whole"));
  });

  show();
  ask("page/about").then(({ model, treatments }) => {
    const reads = (window) => (window === null ? "any length" : `${window.toLocaleString("en")} tokens`);
    const who = (place) => (place + 1 < treatments.length ? "plain" : "served");
    const facts = [["model", model], ...treatments.map(({ treatment, window }, place) => [`${who(place)} (${treatment}) reads`, reads(window)])];
    one("facts").replaceChildren(...facts.map(([name, value]) => {
      const item = document.createElement("li"), bold = document.createElement("b");
      bold.textContent = value;
      item.append(`${name} `, bold);
      return item;
    }));
  }).catch((error) => complain(error.message));
})();
