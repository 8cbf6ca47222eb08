// A chat with the server this page comes from. Text from the model or the user is only ever set as
// text, never as HTML.

const byId = (id) => document.getElementById(id);
const list = byId("messages"), input = byId("input"), parameters = byId("parameters");

let conversation = [];  // {role, content, reasoning_content?}
let running = null;     // AbortController of the request in flight

function headers() {
  const key = parameters.elements.key.value;
  const all = {"Content-Type": "application/json"};
  if (key) all.Authorization = `Bearer ${key}`;
  return all;
}

function requestBody() {
  const fields = parameters.elements;
  const body = {stream: true, stream_options: {include_usage: true}};
  body.messages = fields.system.value.trim()
    ? [{role: "system", content: fields.system.value}, ...conversation]
    : [...conversation];
  for (const name of ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"]) {
    if (fields[name].value !== "") body[name] = Number(fields[name].value);
  }
  if (fields.stop.value !== "") body.stop = fields.stop.value;
  if (fields.thinking.value !== "") body.thinking = {type: fields.thinking.value};
  return body;
}

// The list's entry for one message, with setters for its parts.
function addEntry(kind) {
  const item = document.createElement("li");
  item.className = kind;
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "Thought";
  const thought = document.createElement("span");
  details.append(summary, thought);
  const text = document.createElement("span");
  const note = document.createElement("span");
  note.className = "note";
  item.append(text, note);
  list.append(item);
  return {
    setThought(value) {
      if (!details.isConnected) item.prepend(details);
      thought.textContent = value;
    },
    setText(value) { text.textContent = value; list.scrollTop = list.scrollHeight; },
    setNote(value) { note.textContent = value; },
  };
}

// Yields the JSON of each event of a stream.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    buffer += value;
    let end;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const block = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      if (!block.startsWith("data: ")) continue;
      if (block === "data: [DONE]") return;
      yield JSON.parse(block.slice(6));
    }
  }
}

async function errorOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered ${response.status}.`;
  }
}

function showFigures(usage, timing) {
  // A busy browser may read the whole answer at once: then the wait for it counts as well.
  const together = timing.last === timing.first;
  const seconds = (timing.last - (together ? timing.start : timing.first)) / 1000;
  const tokens = usage.completion_tokens - (together ? 0 : 1);
  const speed = seconds > 0 && usage.completion_tokens > 1
    ? `${(tokens / seconds).toFixed(1)} tokens/s` : "–";
  byId("figures").textContent =
    `prompt ${usage.prompt_tokens} tokens (${usage.prompt_cache_hit_tokens} cached) · ` +
    `answer ${usage.completion_tokens} tokens · first after ` +
    `${((timing.first - timing.start) / 1000).toFixed(2)} s · ${speed}`;
}

function apply(chunk, message, entry, timing) {
  if (chunk.error) throw new Error(chunk.error.message);
  const choice = chunk.choices[0];
  if (choice) {
    const delta = choice.delta;
    if (delta.content || delta.reasoning_content || delta.tool_calls) {
      timing.last = performance.now();
      timing.first ??= timing.last;
    }
    if (delta.reasoning_content) {
      message.reasoning_content = (message.reasoning_content ?? "") + delta.reasoning_content;
      entry.setThought(message.reasoning_content);
    }
    if (delta.content) {
      message.content += delta.content;
      entry.setText(message.content);
    }
    if (choice.finish_reason === "length") entry.setNote("(cut: the token limit was reached)");
  }
  if (chunk.usage) showFigures(chunk.usage, timing);
}

function setRunning(controller) {
  running = controller;
  byId("send").disabled = byId("clear").disabled = controller !== null;
  byId("stop").disabled = controller === null;
  byId("retry").disabled = controller !== null || conversation.length === 0;
}

async function answer() {
  const controller = new AbortController();
  setRunning(controller);
  const entry = addEntry("assistant");
  const message = {role: "assistant", content: ""};
  const timing = {start: performance.now()};
  try {
    const response = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), body: JSON.stringify(requestBody()),
      signal: controller.signal,
    });
    if (!response.ok) throw new Error(await errorOf(response));
    for await (const chunk of events(response)) apply(chunk, message, entry, timing);
    conversation.push(message);
  } catch (error) {
    if (error.name === "AbortError") {
      entry.setNote("(stopped)");
      conversation.push(message);
    } else {
      addEntry("error").setText(error.message);
    }
  }
  setRunning(null);
  input.focus();
}

function send() {
  const text = input.value;
  if (running || text.trim() === "") return;
  input.value = "";
  conversation.push({role: "user", content: text});
  addEntry("user").setText(text);
  answer();
}

function again() {
  if (running) return;
  while (conversation.length > 0 && conversation.at(-1).role === "assistant") conversation.pop();
  while (list.lastChild && !list.lastChild.classList.contains("user")) list.lastChild.remove();
  if (conversation.length > 0) answer();
}

function clear() {
  conversation = [];
  list.replaceChildren();
  byId("figures").textContent = "";
  setRunning(null);
}

async function watchServer() {
  try {
    const ready = await (await fetch("ready")).json();
    byId("state").textContent = ready.status === "loading"
      ? `loading, ${Math.round(100 * ready.progress)} %` : ready.status;
    if (ready.status === "ready") {
      const models = await (await fetch("v1/models", {headers: headers()})).json();
      byId("model").textContent = models.data?.[0]?.id ?? "(needs an API key)";
      return;
    }
  } catch {
    byId("state").textContent = "not reachable";
  }
  setTimeout(watchServer, 1000);
}

byId("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
parameters.addEventListener("submit", (event) => event.preventDefault());
parameters.elements.key.value = sessionStorage.getItem("key") ?? "";
parameters.elements.key.addEventListener("change", () => {
  sessionStorage.setItem("key", parameters.elements.key.value);
  watchServer();
});
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
byId("stop").addEventListener("click", () => running?.abort());
byId("retry").addEventListener("click", again);
byId("clear").addEventListener("click", clear);
watchServer();
