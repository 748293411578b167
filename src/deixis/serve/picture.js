// Drawing: heat over a photograph, and the picture for download (SVG, and PNG made from it).

const INK = "#1b1b1f";
const PAPER = "#ffffff";
const SHARP = 1440;  // pixels

/** Return a canvas with the colours of a heat map {grid: [[...]]}, one pixel per cell; `glow` is [[heat, r, g, b], ...]. */
export function heatCells(heat, glow) {
  const rows = heat.grid.length, columns = heat.grid[0].length;
  const most = Math.max(1e-12, ...heat.grid.flat());
  const canvas = new OffscreenCanvas(columns, rows);
  const pen = canvas.getContext("2d"), pixels = pen.createImageData(columns, rows);
  heat.grid.flat().forEach((value, i) => {
    const warm = Math.max(0, value) / most;
    pixels.data.set([...glowAt(warm, glow), 255 * 0.75 * Math.sqrt(warm)], 4 * i);
  });
  pen.putImageData(pixels, 0, 0);
  return canvas;
}

function glowAt(warm, glow) {
  const above = Math.max(1, glow.findIndex(([at]) => at >= warm));
  const [low, ...from] = glow[above - 1], [high, ...to] = glow[above];
  return from.map((colour, i) => colour + (to[i] - colour) * (warm - low) / (high - low));
}

/** Draw an interpolated heat map over a canvas. */
export function paintHeat(canvas, heat, glow) {
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(heatCells(heat, glow), 0, 0, canvas.width, canvas.height);
}

/** The small picture of one branch: the photograph in grey, its heat map, and the boxes with the most attention. */
export function paintAttention(canvas, photo, size, branch, glow) {
  canvas.width = 320;
  canvas.height = Math.max(1, Math.round(320 * size.height / size.width));
  const pen = canvas.getContext("2d"), scale = canvas.width / size.width;
  pen.filter = "grayscale(1) brightness(.8)";
  pen.drawImage(photo, 0, 0, canvas.width, canvas.height);
  pen.filter = "none";
  paintHeat(canvas, branch.heat, glow);
  branch.boxes.toReversed().forEach(({box: [x1, y1, x2, y2]}, i, all) => {
    const best = i === all.length - 1;
    for (const [width, style] of [[best ? 6 : 3, "rgb(0 0 0 / .55)"], [best ? 3 : 1.2, PAPER]]) {
      pen.lineWidth = width;
      pen.strokeStyle = style;
      pen.strokeRect(x1 * scale, y1 * scale, (x2 - x1) * scale, (y2 - y1) * scale);
    }
  });
}

const BRACKETS = {"-lrb-": "(", "-rrb-": ")"};

/**
 * The caption in pieces, in order: a grounded phrase is one piece, and so is each other word.
 * [{text, space, owner, start, end, rest}]: owner is the number of the grounding or null; words[start:end] is the piece;
 * space says whether a space precedes it; rest is what follows the last word, such as a full stop.
 */
export function pieces({caption, words, groundings}) {
  const places = [];  // of each word in the caption, [from, to)
  let at = 0;
  for (const word of words) {
    while (caption[at] === " ") at++;
    places.push([at, at += (BRACKETS[word] ?? word).length]);
  }
  const starts = new Map(groundings.map((grounding, i) => [grounding.start, i])), found = [];
  for (let start = 0; start < words.length;) {
    const owner = starts.get(start) ?? null, end = owner === null ? start + 1 : groundings[owner].end;
    const [from, to] = [places[start][0], places[end - 1][1]];
    const rest = end === words.length ? caption.slice(to) : "";
    found.push({text: caption.slice(from, to), space: caption[from - 1] === " ", owner, start, end, rest});
    start = end;
  }
  return found;
}

/** SVG text: photograph (a data: address), boxes with labels, the sentence below with phrases in the boxes' colours. */
export function composeSvg({photo, size, sentence, marks}) {
  const scale = Math.min(1600, Math.max(720, size.width)) / size.width;
  const width = Math.round(size.width * scale), height = Math.round(size.height * scale);
  const letter = Math.round(width / 46), line = Math.max(2, width / 260), taken = [];
  const parts = [`<image href="${photo}" width="${width}" height="${height}"/>`];
  for (const mark of marks) {
    const [x1, y1, x2, y2] = mark.box.map(v => v * scale);
    const place = `x="${x1.toFixed(1)}" y="${y1.toFixed(1)}" width="${(x2 - x1).toFixed(1)}" height="${(y2 - y1).toFixed(1)}"`;
    parts.push(`<rect ${place} fill="none" stroke="${PAPER}" stroke-width="${line * 2}"/>`);
    parts.push(`<rect ${place} fill="none" stroke="${mark.colour.fill}" stroke-width="${line}"/>`);
  }
  for (const mark of marks) {
    const wide = measure(mark.label, letter, "600") + letter, high = letter * 1.5;
    const [x, y] = labelPlace(mark.box.map(v => v * scale), wide, high, width, height, taken);
    taken.push([x, y, x + wide, y + high]);
    parts.push(`<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${wide.toFixed(1)}" height="${high}" rx="4" fill="${mark.colour.fill}"/>`);
    parts.push(`<text x="${(x + wide / 2).toFixed(1)}" y="${(y + letter * 1.08).toFixed(1)}" text-anchor="middle" font-weight="600" `
      + `font-size="${letter}" fill="${mark.colour.ink}">${escaped(mark.label)}</text>`);
  }
  const below = paragraph(sentence, width, height);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height + below.height}" width="${width}" `
    + `height="${height + below.height}" font-family="system-ui, sans-serif" role="img">`
    + `<title>${escaped(sentence.map(w => (w.space ? " " : "") + w.text + w.rest).join(""))}</title>`
    + `<rect width="100%" height="100%" fill="${PAPER}"/>${parts.join("")}${below.svg}</svg>`;
}

/** Convert SVG text to a PNG that is wide enough for sharp letters. */
export async function rasterise(svg) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([svg], {type: "image/svg+xml"}));
  try {
    await image.decode();
    const scale = Math.max(1, SHARP / image.naturalWidth);
    const canvas = new OffscreenCanvas(Math.round(scale * image.naturalWidth), Math.round(scale * image.naturalHeight));
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await canvas.convertToBlob({type: "image/png"});
  } finally {
    URL.revokeObjectURL(image.src);
  }
}

function paragraph(sentence, width, top) {
  if (!sentence.length) return {svg: "", height: 0};
  const letter = Math.round(width / 30), leading = letter * 1.55, margin = letter * 0.8, out = [];
  let x = margin, y = top + margin + letter;
  for (const word of sentence) {
    const wide = measure(word.text + word.rest, letter), gap = word.space ? measure(" ", letter) : 0;
    if (x > margin && x + gap + wide > width - margin) { x = margin; y += leading; } else { x += gap; }
    out.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" font-size="${letter}" fill="${INK}">${escaped(word.text + word.rest)}</text>`);
    if (word.colour) {
      const under = measure(word.text, letter);
      out.push(`<rect x="${x.toFixed(1)}" y="${(y + letter * 0.2).toFixed(1)}" width="${under.toFixed(1)}" height="${(letter * 0.15).toFixed(1)}" fill="${word.colour.fill}"/>`);
    }
    x += wide;
  }
  return {svg: out.join(""), height: Math.ceil(y + margin - top)};
}

/** Return the label position at a box, inside the picture, with the least overlap with other labels. */
function labelPlace([x1, y1, x2, y2], wide, high, width, height, taken) {
  const places = [y1 - high, y1, y2, y2 - high, y1 + high, (y1 + y2 - high) / 2].flatMap(y =>
    [x1, x2 - wide, (x1 + x2 - wide) / 2].map(x => [
      Math.min(Math.max(x, 0), Math.max(width - wide, 0)), Math.min(Math.max(y, 0), Math.max(height - high, 0))]));
  const hidden = ([x, y]) => taken.reduce((sum, [a, b, c, d]) =>
    sum + Math.max(0, Math.min(c, x + wide) - Math.max(a, x)) * Math.max(0, Math.min(d, y + high) - Math.max(b, y)), 0);
  return places.reduce((best, place) => hidden(place) < hidden(best) ? place : best);
}

const ruler = new OffscreenCanvas(1, 1).getContext("2d");

function measure(text, letter, weight = "400") {
  ruler.font = `${weight} ${letter}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}

function escaped(text) {
  return text.replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
}
