"use strict";
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  for (const each of all("[hidden]")) each.hidden = false;

  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.classList.contains("dark") ||
      (!root.classList.contains("light") && matchMedia("(prefers-color-scheme:dark)").matches);
    root.classList.remove("dark", "light");
    root.classList.add(dark ? "light" : "dark");
  });

  // Sort a table by a column: numbers by their value, other cells as text.
  const valueOf = (cell) => {
    if (cell.dataset.v) return +cell.dataset.v;
    const text = cell.textContent.trim(), number = text.replace(/[\s,×]/g, "");
    if (text === "–" || text === "") return null;
    return /^-?[\d.]+$/.test(number) ? +number : text;
  };
  const compare = (one, other) => {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), undefined, { numeric: true });
  };
  for (const table of all("table.sortable")) {
    const heads = all("th", table.tHead);
    heads.forEach((head, column) => {
      head.classList.add("sorts");
      head.tabIndex = 0;
      const sort = () => {
        const up = head.getAttribute("aria-sort") === "descending";
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[column]), row]);
        rows.sort((one, other) => {
          if (one[0] === null || other[0] === null) return compare(one[0], other[0]);
          return (up ? 1 : -1) * compare(one[0], other[0]);
        });
        table.tBodies[0].append(...rows.map((each) => each[1]));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }

  const table = document.getElementById("all");
  const filter = document.getElementById("filter");
  if (filter) {
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      for (const row of table.tBodies[0].rows)
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    });
  }

  // The map of partitions names the square below the pointer.
  const map = document.querySelector("svg.map");
  if (map) {
    const rows = [...table.tBodies[0].rows];
    const pointed = document.getElementById("pointed");
    map.addEventListener("pointermove", (event) => {
      const box = map.getBoundingClientRect();
      const scale = 1000 / box.width, cell = +map.dataset.cell;
      const column = Math.floor((event.clientX - box.left) * scale / cell);
      const row = rows[Math.floor((event.clientY - box.top) * scale / cell) * +map.dataset.columns + column];
      if (row && column < +map.dataset.columns) {
        const [name, size, , records, , , , , found] = [...row.cells].map((each) => each.textContent.trim());
        pointed.textContent = `${name}: ${records} records, ${size}${found ? `, findings: ${found}` : ""}`;
      }
    });
  }

  // Zoom: the viewBox shows a part of the axis, and the marks are made again for that part.
  const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
  const STEPS = [1, 10, 100, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE,
    5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY,
    14 * DAY, 30 * DAY, 91 * DAY, 365 * DAY, 3652 * DAY];
  const roundStep = (least) => {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    return Math.max(1, [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least));
  };
  const timeText = (at, step) => {
    if (Math.abs(at) > 8.64e15) return "";
    const text = new Date(at).toISOString();
    if (step >= 30 * DAY) return text.slice(0, 7);
    if (at % DAY === 0) return step >= DAY ? text.slice(0, 10) : text.slice(5, 10);
    return step < SECOND ? text.slice(11, 23) : step < MINUTE ? text.slice(11, 19) : text.slice(11, 16);
  };
  const numberText = (at) => {
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]])
      if (Math.abs(at) >= size && (at % (size / 1000)) === 0) return at / size + unit;
    return String(at);
  };
  const SVG = "http://www.w3.org/2000/svg";
  for (const picture of all(".zoom svg.pic")) {
    const plot = picture.querySelector("svg.plot");
    const height = +plot.getAttribute("height");
    const first = +picture.dataset.first, whole = +picture.dataset.end - first, isTime = "time" in picture.dataset;
    let left = 0, width = 1000;
    const draw = () => {
      plot.setAttribute("viewBox", `${left} 0 ${width} ${height}`);
      const from = first + whole * left / 1000, length = whole * width / 1000;
      const most = Math.max(picture.clientWidth / 110, 2);
      const step = isTime ? STEPS.find((each) => length / each <= most) || 36525 * DAY : roundStep(length / most);
      const marks = picture.querySelector("g.marks"), grid = picture.querySelector("g.grid");
      marks.replaceChildren();
      grid.replaceChildren();
      for (let at = Math.ceil(from / step) * step; at <= from + length; at += step) {
        const percent = `${(at - from) * 100 / length}%`;
        const text = document.createElementNS(SVG, "text");
        text.setAttribute("x", percent);
        text.setAttribute("y", height + 16);
        text.textContent = isTime ? timeText(at, step) : numberText(at);
        marks.append(text);
        const line = document.createElementNS(SVG, "line");
        for (const [name, value] of [["x1", percent], ["x2", percent], ["y1", 0], ["y2", height]])
          line.setAttribute(name, value);
        grid.append(line);
      }
    };
    const move = (newLeft, newWidth) => {
      width = Math.min(Math.max(newWidth, 1000 / Math.max(whole, 1), 1e-6), 1000);
      left = Math.min(Math.max(newLeft, 0), 1000 - width);
      draw();
    };
    picture.addEventListener("wheel", (event) => {
      const zooms = event.deltaY < 0 || width < 1000;
      if (!zooms) return;
      event.preventDefault();
      const box = picture.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
      const factor = event.deltaY < 0 ? 0.8 : 1.25;
      move(left + width * share * (1 - factor), width * factor);
    }, { passive: false });
    let dragged = null;
    picture.addEventListener("pointerdown", (event) => { dragged = [event.clientX, left]; });
    picture.addEventListener("pointermove", (event) => {
      if (dragged === null || !(event.buttons & 1)) return;
      const box = picture.getBoundingClientRect();
      move(dragged[1] - (event.clientX - dragged[0]) * width / box.width, width);
    });
    picture.addEventListener("pointerup", () => { dragged = null; });
    picture.addEventListener("dblclick", () => move(0, 1000));
  }
})();
