// The map: pointing at a cell shows its times; a click keeps it; arrow keys move. Without this script, cells have a title each.
(() => {
  const { strategies, axes, cells } = JSON.parse(document.getElementById("cells").textContent);
  const details = document.getElementById("details"), frame = document.getElementById("chosen");
  const groups = new Map(Array.from(document.querySelectorAll(".cell"), (group) => [group.dataset.place, group]));
  let kept = null;

  function element(name, text, kind) {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  // Four significant digits, in the unit that a reader of iteration times expects.
  function seconds(value) {
    if (value >= 1) return `${Number(value.toPrecision(4))} s`;
    return value >= 1e-3 ? `${Number((value * 1e3).toPrecision(4))} ms` : `${Number((value * 1e6).toPrecision(4))} us`;
  }

  function timesTable(cell) {
    const table = document.createElement("table"), measured = cell.measured;
    const head = table.createTHead().insertRow();
    for (const name of ["strategy", "estimate", "x best", ...(measured ? ["measured"] : [])]) head.append(element("th", name, name === "strategy" ? "" : "number"));
    const body = table.createTBody();
    for (const [name, time, between] of cell.times) {
      const row = body.insertRow();
      row.append(element("td", name), element("td", `${between ? "≈ " : ""}${seconds(time)}`, "number"), element("td", (time / cell.times[0][1]).toFixed(3), "number"));
      if (measured) row.append(element("td", name in measured.times ? seconds(measured.times[name]) : name in measured.invalid ? "invalid" : "–", "number"));
    }
    return table;
  }

  function show(place) {
    const cell = cells[place], group = groups.get(place), box = group.querySelector("rect");
    const [i, j] = place.split(",").map(Number);
    const parts = [element("h2", `${axes[0].key} = ${axes[0].values[i]}, ${axes[1].key} = ${axes[1].values[j]}`)];
    parts.push(element("p", cell.words));
    if (cell.times.length) parts.push(timesTable(cell));
    if (cell.times.some(([, , between]) => between)) parts.push(element("p", "≈: on a line between estimates at other rates.", "foot"));
    if (cell.doubtful) parts.push(element("p", "The order of the first ones depends on how much ports and switches hold: measure it.", "bad"));
    if (cell.measured) parts.push(element("p", `Measured by packets (${cell.measured.why}): ${cell.measured.text}.`, cell.measured.outcome === "agrees" ? "good" : "bad"));
    for (const name of strategies) if (cell.measured && name in cell.measured.invalid) parts.push(element("p", `${name}, invalid: ${cell.measured.invalid[name]}`, "quiet"));
    for (const [name, why] of cell.refused) parts.push(element("p", `${name} cannot run: ${why}`, "quiet"));
    if (kept === place) parts.push(element("p", "Kept: click it again, or Escape, to let go.", "foot"));
    details.replaceChildren(...parts);
    for (const name of ["x", "y"]) frame.setAttribute(name, box.getAttribute(name));
    frame.setAttribute("visibility", "visible");
    frame.classList.toggle("kept", kept === place);
  }

  function toggle(place) {
    kept = kept === place ? null : place;
    show(place);
  }

  function reached(place) {
    for (const [other, group] of groups) group.setAttribute("tabindex", other === place ? "0" : "-1");
    if (kept === null) show(place);
  }

  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  function pressed(event, place) {
    const step = STEPS[event.key];
    if (event.key === "Enter" || event.key === " ") toggle(place);
    else if (step) {
      const [i, j] = place.split(",").map(Number);
      const beside = `${i + step[0]},${j + step[1]}`, next = groups.get(beside);
      if (next) {
        kept = null;
        next.focus();
        reached(beside); // a window that is not in front tells nobody of the focus
      }
    } else return;
    event.preventDefault();
  }

  details.hidden = false;
  for (const hint of document.querySelectorAll(".scripted")) hint.hidden = false;
  for (const [place, group] of groups) {
    group.querySelector("title").remove(); // the panel says more
    group.addEventListener("pointerenter", () => kept === null && show(place));
    group.addEventListener("click", () => toggle(place));
    group.addEventListener("keydown", (event) => pressed(event, place));
    group.addEventListener("focus", () => reached(place));
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || kept === null) return;
    const place = kept;
    kept = null;
    show(place);
  });
  // Something is seen at once: the cell with the most to say.
  const first = Object.keys(cells).find((place) => cells[place].measured) ?? Object.keys(cells)[0];
  show(first);
})();
