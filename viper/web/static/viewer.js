"use strict";
// A filter applies as soon as it is chosen; text waits for Enter.
document.querySelectorAll("form[data-filter]").forEach((form) => {
  const send = () => {
    form.querySelectorAll("input, select").forEach((one) => { one.disabled = one.value === ""; });
    form.submit();
  };
  form.querySelectorAll("select").forEach((one) => one.addEventListener("change", send));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
});
// Pictures that are not known yet are asked for again.
document.querySelectorAll("img").forEach((image) => {
  let left = 20;
  image.addEventListener("error", () => {
    if (left-- > 0) setTimeout(() => { image.src = image.src; }, 1000);
  });
});
// Arrow keys turn the page where nothing is being typed.
addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = { ArrowRight: "a[rel=next]", ArrowLeft: "a[rel=prev]" }[event.key];
  if (link) document.querySelector(link)?.click();
});
