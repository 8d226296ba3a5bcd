const byId = (id) => document.getElementById(id);
const scene = byId("scene"), drawn = scene.querySelector("polyline"), kind = byId("kind");
let size = [0, 0], points = [], isDragging = false, newest = null;

function svg(name, attributes, text = "") {
  const element = document.createElementNS(scene.namespaceURI, name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.textContent = text;
  return element;
}

// The program counts from the bottom-left corner, the picture from the top-left one.
const turned = ([x, y]) => [x, size[1] - y];
const joined = (all) => all.map((point) => turned(point).join(",")).join(" ");

function drawScene(state) {
  size = [state.width, state.height];
  scene.setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
  const image = scene.querySelector("image");
  Object.entries({ href: state.frame, width: size[0], height: size[1] }).forEach((each) => image.setAttribute(...each));
  byId("found").replaceChildren(
    ...state.shapes.map((shape) => svg("polyline", { class: "shape", points: joined(shape) })),
    ...state.boxes.flatMap(({ box: [x0, y0, x1, y1], name, way }) => [
      svg("polyline", { class: "way", points: joined(way) }),
      svg("rect", { x: x0, y: size[1] - y1, width: Math.max(0, x1 - x0), height: Math.max(0, y1 - y0) }),
      svg("text", { x: x0, y: size[1] - y1, "font-size": size[1] / 25 }, name),
    ]),
  );
}

function drawEvents(events) {
  if (!events.length || events[0].id + events[0].kind === newest) return;
  newest = events[0].id + events[0].kind;
  byId("events").replaceChildren(...events.map((event) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.textContent = `${event.kind} ${event.time.toFixed(1)} s, ${event.source}`;
    link.href = event.page;
    link.target = "_blank";
    item.append(link);
    if (event.clip) {
      const clip = document.createElement("video");
      Object.assign(clip, { src: event.clip, controls: true, muted: true, preload: "none" });
      item.append(clip);
    }
    return item;
  }));
}

async function look() {
  try {
    const reply = await fetch("state");
    if (!reply.ok) throw new Error(reply.status);
    const state = await reply.json();
    if (state.frame) drawScene(state);
    drawEvents(state.events);
    byId("status").textContent = [
      state.source && `${state.source} at ${state.time} s: ${state.answer}`,
      `${state.watched} s watched`,
      state.failed && `the program failed on ${state.failed} windows`,
      state.waiting && "some events are not delivered yet",
    ].filter(Boolean).join("; ");
  } catch {
    byId("status").textContent = "the watch has ended, or cannot be reached";
  }
  setTimeout(look, 1000);
}
look();

function at(event) {
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(scene.getScreenCTM().inverse());
  return turned([place.x, place.y].map((value, axis) => Math.round(Math.max(0, Math.min(size[axis], value)))));
}
function show() {
  const corners = points.map(([x, y]) => `(${x}, ${y})`).join(", ");
  drawn.setAttribute("points", joined(kind.value === "zone" && points.length > 2 ? [...points, points[0]] : points));
  byId("code").value = points.length > 1 ? `${kind.value} = (${corners})` : "";
}
function clear() {
  points = [];
  show();
}
scene.addEventListener("pointerdown", (event) => {
  if (!size[0]) return;
  event.preventDefault();
  if (kind.value === "zone") points.push(at(event));
  else {
    points = [at(event)];
    isDragging = true;
    scene.setPointerCapture(event.pointerId);
  }
  show();
});
scene.addEventListener("pointermove", (event) => {
  if (!isDragging) return;
  points[1] = at(event);
  show();
});
scene.addEventListener("pointerup", () => (isDragging = false));
kind.addEventListener("change", clear);
byId("again").addEventListener("click", clear);
byId("code").addEventListener("focus", (event) => event.target.select());
