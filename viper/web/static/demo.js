// Files that are dropped or pasted go to the button for uploads.
function take(event, files) {
  const input = document.querySelector("input[type=file]");
  if (!files?.length || !input) return;
  event.preventDefault();
  input.files = files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => take(event, event.dataTransfer.files));
addEventListener("paste", (event) => take(event, event.clipboardData.files));

// A box that is drawn on the picture, in the picture's pixels, becomes the right answer or one more example.
let start = null, box = null;
function at(event, svg) {
  const { width, height } = svg.viewBox.baseVal;
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [[point.x, width], [point.y, height]].map(([value, most]) => Math.round(Math.max(0, Math.min(most, value))));
}
function write(name, change) {
  const field = document.querySelector(`${name} :is(textarea, input)`);
  field.value = change(field.value.trim());
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
element.addEventListener("pointerdown", (event) => {
  const svg = event.target.closest("svg[data-draws]");
  if (!svg) return;
  event.preventDefault();
  svg.setPointerCapture(event.pointerId);
  [start, box] = [at(event, svg), null];
});
element.addEventListener("pointermove", (event) => {
  const svg = event.target.closest("svg[data-draws]");
  if (!svg || !start) return;
  const end = at(event, svg);
  const [x0, y0] = start.map((value, axis) => Math.min(value, end[axis]));
  const [x1, y1] = start.map((value, axis) => Math.max(value, end[axis]));
  const sides = { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
  Object.entries(sides).forEach(([name, value]) => svg.querySelector(".viper-right").setAttribute(name, value));
  box = [x0, y0, x1, y1].join(",");
  if (svg.dataset.draws === "right") write(".viper-right-answer", () => box);
});
addEventListener("pointerup", () => {
  const svg = element.querySelector("svg[data-draws=examples]");
  if (svg && box) {
    write(".viper-examples", (boxes) => (boxes ? `${boxes}\n${box}` : box));
    svg.append(svg.querySelector(".viper-right").cloneNode());
  }
  start = box = null;
});
