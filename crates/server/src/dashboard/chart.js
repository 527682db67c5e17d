// Lines over time, as SVG.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 100;

function element(parent, name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

function label(parent, place) {
  const made = document.createElement("output");
  made.className = place;
  parent.append(made);
  return made;
}

// The smallest of 1, 2 and 5 times a power of ten that is at least `value`.
export function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((digit) => digit * power).find((bound) => bound >= value);
}

// A chart with one line for each class; it has the same elements as long as the page is open.
export class Chart {
  constructor(parent, classes, format) {
    this.format = format;
    this.svg = element(parent, "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    for (const y of [0, HEIGHT / 2, HEIGHT]) element(this.svg, "line", { x1: 0, x2: WIDTH, y1: y, y2: y });
    this.lines = classes.map((name) => element(this.svg, "path", { class: name }));
    this.classes = classes;
    this.top = label(parent, "top");
    this.middle = label(parent, "middle");
  }

  // Draws points, each `{age, values}`: seconds before now, and one number or null for each class.
  draw(points, seconds) {
    const highest = Math.max(0, ...points.flatMap((point) => point.values));
    const bound = ceiling(highest);
    this.lines.forEach((line, index) => {
      let path = "";
      let joined = false;
      for (const { age, values } of points) {
        const value = values[index];
        if (value === null) { joined = false; continue; }
        const x = WIDTH * (1 - age / seconds);
        const y = HEIGHT * (1 - value / bound);
        path += `${joined ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
        joined = true;
      }
      line.setAttribute("d", path);
    });
    this.top.textContent = this.format(bound);
    this.middle.textContent = this.format(bound / 2);
    const last = points.at(-1);
    const now = this.classes.map((name, index) => `${name} ${last && last.values[index] !== null ? this.format(last.values[index]) : "none"}`);
    this.svg.setAttribute("aria-label", `now ${now.join(", ")}; highest ${this.format(highest)}`);
  }
}
