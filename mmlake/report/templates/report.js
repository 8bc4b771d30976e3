(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  document.addEventListener("pointermove", (event) => {
    const mark = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
  });
  for (const picture of document.querySelectorAll("svg.tracks")) {
    const film = picture.closest("figure").querySelector("video");
    const head = picture.querySelector(".head");
    const [length, start] = [Number(picture.dataset.length), Number(picture.dataset.start)];
    if (!film || !head || !(length > 0)) continue;
    const move = () => {
      const share = Math.max(0, Math.min(1, (film.currentTime - start) / length));
      head.setAttribute("x1", share * 100 + "%");
      head.setAttribute("x2", share * 100 + "%");
    };
    const run = () => {
      move();
      if (!film.paused) requestAnimationFrame(run);
    };
    for (const name of ["play", "seeked", "pause"]) film.addEventListener(name, run);
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect();
      film.currentTime = start + (length * (event.clientX - box.left)) / box.width;
    });
  }
  document.addEventListener("play", (event) => {
    for (const other of document.querySelectorAll("audio, video")) if (other !== event.target) other.pause();
  }, true);
})();
