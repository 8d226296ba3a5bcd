// Keys press the button that names them; in a text field, only Enter does.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=hidden])")) return;
  const button = document.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
  if (!button) return;
  event.preventDefault();
  button.form.requestSubmit(button);
});

// A box that is dragged on the picture, in the picture's pixels, is the answer.
const svg = document.querySelector("svg[data-draws]");
const field = document.querySelector("input[name=answer]");
let start = null;
function at(event) {
  const { width, height } = svg.viewBox.baseVal;
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [[point.x, width], [point.y, height]].map(([value, most]) => Math.round(Math.max(0, Math.min(most, value))));
}
svg?.addEventListener("pointerdown", (event) => {
  event.preventDefault();
  svg.setPointerCapture(event.pointerId);
  start = at(event);
});
svg?.addEventListener("pointermove", (event) => {
  if (!start) return;
  const end = at(event);
  const [x0, y0] = start.map((value, axis) => Math.min(value, end[axis]));
  const [x1, y1] = start.map((value, axis) => Math.max(value, end[axis]));
  const sides = { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
  Object.entries(sides).forEach(([name, value]) => svg.querySelector(".drawn").setAttribute(name, value));
  field.value = [x0, y0, x1, y1].join(",");
});
svg?.addEventListener("pointerup", () => (start = null));

// While a fit runs, its state is asked for; when it ends, the page shows the new program.
const said = document.querySelector("#said");
async function look() {
  const state = await (await fetch("state")).json();
  said.hidden = !state.said;
  said.textContent = state.said;
  if (state.busy) setTimeout(look, 1000);
  else location.reload();
}
if (said.dataset.busy === "true") look();
