// The page: a photograph goes to the server, a caption with boxes comes back; a phrase and its box highlight each other.

import {composeSvg, paintAttention, paintHeat, pieces, rasterise} from "./picture.js";

const $ = (selector, within = document) => within.querySelector(selector);
const SVG = "http://www.w3.org/2000/svg";

const [settings, {models}] = await Promise.all(["/settings.json", "/v1/models"].map(url => fetch(url).then(r => r.json())));
const captions = model => model.does.includes("caption");
const grounders = models.filter(model => !captions(model));
const state = {photo: null, name: "", url: "", image: null, columns: [], phrases: [], asked: 0};
const colour = index => settings.colours[index % settings.colours.length];
const percent = score => `${Math.round(100 * score)}%`;

// Messages -----------------------------------------------------------------------------------------------------------

/** Progress is shown and read by screen readers; a result is only read by them, because it is on the page. */
function announce(text, visible = true) {
  $("#status").classList.toggle("heard", !visible || !text);
  $("#status").textContent = text;
}

function showError(text) {
  $("#problem").textContent = text;
  $("#problem").hidden = !text;
  if (text) announce("");
}

// Requests -----------------------------------------------------------------------------------------------------------

/** Send the photograph to a route and return the answer; a busy server is asked again a few times. */
async function ask(route, query, tries = 4) {
  const sent = {method: "POST", body: state.photo, headers: {"Content-Type": state.photo.type || "application/octet-stream"}};
  let response;
  try {
    response = await fetch(`/v1/${route}?${new URLSearchParams(query)}`, sent);
  } catch {
    throw new Error("The server does not respond. Check that it is running.");
  }
  if (response.status === 503 && tries > 1) {
    const wait = Number(response.headers.get("Retry-After")) || 1;
    announce(`The server is busy; trying again in ${wait} s …`);
    await new Promise(done => setTimeout(done, 1000 * wait));
    return ask(route, query, tries - 1);
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(sentence(answer.detail));
  return answer;
}

const sentence = text => text.charAt(0).toUpperCase() + text.slice(1);

// A photograph -------------------------------------------------------------------------------------------------------

async function show(photo, name) {
  const clip = photo.type.startsWith("video/");
  if (photo.type && !clip && !photo.type.startsWith("image/")) {
    return showError(`${name} is neither an image nor a video. Use JPEG, PNG, WebP, AVIF, GIF, MP4 or WebM.`);
  }
  if (photo.size > settings.bytes) {
    return showError(`${name} has ${(photo.size / 1e6).toFixed(1)} MB; the limit is ${settings.bytes / 1e6} MB. Make the ${clip ? "clip" : "image"} smaller.`);
  }
  showError("");
  if (state.url) URL.revokeObjectURL(state.url);
  Object.assign(state, {photo, name, clip, url: URL.createObjectURL(photo), phrases: []});
  state.image = new Image();
  if (!clip) state.image.src = state.url;
  arrange(true);
  await captionPhoto();
}

function arrange(hasPhoto) {
  document.body.classList.toggle("has-photo", hasPhoto);
  $("#tools").hidden = !hasPhoto;
  $(".drop .big").textContent = `Drop, paste or choose ${hasPhoto ? "another" : "a photograph or clip"}`;
}

/** Create the columns, one for each selected model. */
async function captionPhoto() {
  if (!state.photo) return;
  const asked = ++state.asked;
  showError("");
  const chosen = [$("#first").value, $("#second").value].filter(Boolean).map(name => models.find(m => m.name === name));
  state.columns = chosen.map(makeColumn);
  $("#columns").className = chosen.length > 1 ? "pair" : "alone";
  $("#columns").replaceChildren(...state.columns.map(column => column.element));
  announce("Captioning …");
  if (!state.clip) await state.image.decode().catch(() => {});  // if this is no image, the server's error is shown
  if (asked !== state.asked) return;
  state.columns.forEach(column => resize(column, state.image.naturalWidth || 4, state.image.naturalHeight || 3));
  try {
    await Promise.all(state.columns.filter(c => captions(c.model)).map(async column => {
      const result = await ask("caption", {model: column.model.name, steps: true});
      if (asked === state.asked) fill(column, result);
    }));
    if (asked !== state.asked) return;
    const said = state.columns.filter(c => c.result).map(({result}) => [result.caption, result.note].filter(Boolean).join(" "));
    announce(said.length ? said.join(" · ") : "Type a phrase to find it.", false);
    await Promise.all(state.phrases.map(find));
  } catch (error) {
    if (asked === state.asked) {
      showError(error.message);
      $("#columns").replaceChildren();
      Object.assign(state, {photo: null, columns: []});
      arrange(false);
    }
  } finally {
    if (asked === state.asked) state.columns.forEach(c => c.element.classList.remove("waiting"));
  }
}

function makeColumn(model) {
  const element = $("#column").content.cloneNode(true).firstElementChild;
  const column = {model, element, result: null, found: [], held: null, grounder: captions(model) ? grounders[0] : model};
  element.classList.add("waiting");
  const photo = $(".stage img", element), video = $(".stage video", element);
  photo.hidden = state.clip;
  video.hidden = !state.clip;
  $(".stage", element).classList.toggle("clip", state.clip);
  (state.clip ? video : photo).src = state.url;
  photo.alt = "Your photograph";
  if (state.clip) follow(column, video);
  $(".by", element).textContent = model.name;
  if (!captions(model)) showText(column, "This model grounds phrases. Type one above.");
  for (const button of element.querySelectorAll(".downloads button")) {
    button.addEventListener("click", () => download(column, button.dataset.kind).catch(error => showError(error.message)));
  }
  return column;
}

function showText(column, text) {
  $(".sentence", column.element).classList.add("plain");
  $(".sentence", column.element).textContent = text;
}

function resize(column, width, height) {
  column.size = {width, height};
  $(".stage", column.element).style.setProperty("--ratio", String(width / height));
  $(".boxes", column.element).setAttribute("viewBox", `0 0 ${width} ${height}`);
}

/** Show a caption. */
function fill(column, result) {
  column.result = result;
  resize(column, result.width, result.height);
  $(".stage img", column.element).alt = result.caption;
  $(".stage video", column.element).setAttribute("aria-label", result.caption);
  $(".sentence", column.element).replaceChildren(...pieces(result).flatMap(piece => {
    const node = piece.owner === null ? document.createElement("span")
      : wordButton(column, `w${piece.owner}`, colour(piece.owner));
    node.textContent = piece.text;
    Object.assign(node.dataset, {start: piece.start, end: piece.end});
    return [piece.space ? " " : "", node, piece.rest];
  }));
  const note = $(".note", column.element);
  note.hidden = !result.note;
  note.textContent = result.note;
  drawBoxes(column);
  $(".downloads", column.element).hidden = false;
  for (const button of column.element.querySelectorAll(".downloads button")) button.hidden = state.clip && button.dataset.kind !== "json";
  if (result.times?.length) prepareTimeline(column, result.times);
  if (result.steps?.length) prepareAttention(column);
}

// Clips --------------------------------------------------------------------------------------------------------------

/** Redraw the boxes as the clip plays or is moved. */
function follow(column, video) {
  const moment = () => drawMoment(column, video.currentTime);
  for (const event of ["timeupdate", "seeked", "loadeddata"]) video.addEventListener(event, moment);
  const run = () => { moment(); if (!video.paused && video.isConnected) requestAnimationFrame(run); };
  video.addEventListener("play", run);
}

/** The box of a track at a time: linear between two frames that both show it, else that of the nearest frame. */
function boxAt(track, time) {
  const after = track.findIndex(one => one.time >= time);
  const left = track[Math.max(0, after < 0 ? track.length - 1 : after - 1)], right = track[after < 0 ? track.length - 1 : after];
  if (left.shown && right.shown && right.time > left.time) {
    const share = Math.min(1, Math.max(0, (time - left.time) / (right.time - left.time)));
    return left.box.map((v, i) => (1 - share) * v + share * right.box[i]);
  }
  const near = Math.abs(left.time - time) <= Math.abs(right.time - time) ? left : right;
  return near.shown ? near.box : null;
}

function drawMoment(column, time) {
  for (const group of column.element.querySelectorAll(".boxes g")) {
    const {track} = meant(column, group.dataset.key);
    if (!track?.length) continue;
    const box = boxAt(track, time);
    group.toggleAttribute("hidden", !box);
    group.style.display = box ? "" : "none";
    if (box) for (const node of group.querySelectorAll("rect:not(.part)")) place(node, column, box);
  }
  const {times} = column.result ?? {};
  if (!times) return;
  const nearest = times.reduce((best, at, i) => Math.abs(at - time) < Math.abs(times[best] - time) ? i : best, 0);
  [...$(".timeline", column.element).children].forEach((tick, i) => tick.classList.toggle("now", i === nearest));
}

/** One mark for each sampled frame; those in which the highlighted phrase is shown have its colour. */
function prepareTimeline(column, times) {
  const bar = $(".timeline", column.element), video = $(".stage video", column.element);
  bar.hidden = false;
  bar.replaceChildren(...times.map(time => {
    const tick = document.createElement("button");
    tick.type = "button";
    tick.setAttribute("aria-label", `Frame at ${time.toFixed(1)} s`);
    tick.addEventListener("click", () => { video.pause(); video.currentTime = time; });
    return tick;
  }));
  drawMoment(column, video.currentTime);
}

function lightTimeline(column, thing) {
  [...$(".timeline", column.element).children].forEach((tick, i) => {
    const shown = Boolean(thing?.track?.find(one => one.frame === i)?.shown);
    tick.classList.toggle("on", shown);
    if (shown) tick.style.setProperty("--c", thing.colour.fill);
  });
}

// Phrases and boxes highlight each other -----------------------------------------------------------------------------

function wordButton(column, key, {fill, ink}) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "word";
  button.dataset.key = key;
  button.setAttribute("aria-pressed", "false");
  button.style.setProperty("--c", fill);
  button.style.setProperty("--on-c", ink);
  wire(column, button, key);
  button.addEventListener("focus", () => light(column, key));
  button.addEventListener("blur", () => light(column, column.held));
  return button;
}

/** Highlight on hover, hold on click. Boxes have no focus listeners: Chromium would make them stops of the Tab key. */
function wire(column, node, key) {
  node.addEventListener("mouseenter", () => light(column, key));
  node.addEventListener("mouseleave", () => light(column, column.held));
  node.addEventListener("click", () => hold(column, column.held === key ? null : key));
}

function hold(column, key) {
  column.held = key;
  for (const button of column.element.querySelectorAll("button.word")) {
    button.setAttribute("aria-pressed", String(button.dataset.key === key));
  }
  light(column, key);
}

/** Return the grounding of a key: of the caption (w0, w1, ...) or of a phrase (p0, ...). */
function meant(column, key) {
  const index = Number(key.slice(1));
  const shift = column.result?.groundings.length ?? 0;
  return key[0] === "w" ? {...column.result.groundings[index], label: column.result.groundings[index].word, colour: colour(index)}
    : {...column.found[index], label: column.found[index].phrase, colour: colour(shift + index)};
}

function light(column, key) {
  const {element} = column, stage = $(".stage", element), tag = $(".tag", element);
  element.classList.toggle("lit", key !== null);
  for (const node of element.querySelectorAll("[data-key]")) node.classList.toggle("on", node.dataset.key === key);
  const thing = key === null ? null : meant(column, key);
  stage.classList.toggle("hot", Boolean(thing?.heat));
  lightTimeline(column, thing);
  if (!thing) return;
  if (thing.heat) {
    const canvas = $(".heat", element);
    canvas.width = 480;
    canvas.height = Math.max(1, Math.round(480 * column.size.height / column.size.width));
    paintHeat(canvas, thing.heat, settings.glow);
  }
  const [x1, y1, , y2] = thing.box, {width, height} = column.size, space = 30 / stage.clientHeight;
  tag.textContent = key[0] === "p" ? `${thing.label} ${percent(thing.score)}` : thing.label;
  tag.style.background = thing.colour.fill;
  tag.style.color = thing.colour.ink;
  const above = y1 / height > space, below = y2 / height < 1 - space;
  tag.style.top = `${100 * (above ? y1 / height - space : below ? y2 / height : y1 / height)}%`;
  tag.style.left = "0";
  const most = 1 - tag.offsetWidth / stage.clientWidth;
  tag.style.left = `${100 * Math.max(0, Math.min(x1 / width, most))}%`;
}

function drawBoxes(column) {
  const keys = [...(column.result?.groundings ?? []).keys()].map(i => `w${i}`);
  keys.push(...[...column.found.keys()].filter(i => column.found[i].found).map(i => `p${i}`));
  const area = key => { const [x1, y1, x2, y2] = meant(column, key).box; return (x2 - x1) * (y2 - y1); };
  // large boxes first, so that small boxes are on top and can be hovered
  $(".boxes", column.element).replaceChildren(...keys.toSorted((a, b) => area(b) - area(a)).map(key => {
    const thing = meant(column, key), group = document.createElementNS(SVG, "g");
    group.dataset.key = key;
    if (key[0] === "p") group.classList.add("phrase-box");
    group.append(rectangle(column, thing.box, "hold"));
    for (const part of thing.parts ?? []) group.append(rectangle(column, part, "part"));
    group.append(rectangle(column, thing.box, "edge", thing.colour.fill));
    wire(column, group, key);
    return group;
  }));
  if (state.clip) drawMoment(column, $(".stage video", column.element).currentTime);
}

function rectangle(column, box, kind, stroke) {
  const node = document.createElementNS(SVG, "rect");
  place(node, column, box);
  if (stroke) node.setAttribute("stroke", stroke);
  node.setAttribute("class", kind);
  return node;
}

function place(node, {size}, box) {
  const inset = 0.004 * size.width;  // a line on the edge would be cut
  const [x1, x2] = [box[0], box[2]].map(x => Math.min(Math.max(x, inset), size.width - inset));
  const [y1, y2] = [box[1], box[3]].map(y => Math.min(Math.max(y, inset), size.height - inset));
  for (const [name, value] of Object.entries({x: x1, y: y1, width: x2 - x1, height: y2 - y1})) node.setAttribute(name, value);
}

// Phrases ------------------------------------------------------------------------------------------------------------

/** Ground a phrase with the grounder of each column; one request for each grounder. */
async function find(phrase) {
  const asked = state.asked, columns = state.columns.filter(c => c.grounder), answers = new Map();
  if (!columns.length) throw new Error("No model that grounds phrases is loaded. Start the server with one (--model).");
  announce(`Searching for “${phrase}” …`);
  for (const {grounder} of columns) if (!answers.has(grounder.name)) answers.set(grounder.name, ask("ground", {phrase, model: grounder.name}));
  for (const column of columns) {
    const {groundings: [found], threshold, width, height} = await answers.get(column.grounder.name);
    if (asked !== state.asked) return;
    if (!column.result) resize(column, width, height);
    addPhrase(column, found, threshold);
  }
  announce(columns.map(({found}) => found.at(-1)).map(f => `“${f.phrase}”: ${f.found ? "found" : "not found"}, ${percent(f.score)}`).join(" · "), false);
}

function addPhrase(column, found, threshold) {
  const key = `p${column.found.push(found) - 1}`, item = document.createElement("li");
  if (found.found) {
    const button = wordButton(column, key, meant(column, key).colour), score = document.createElement("small");
    score.textContent = percent(found.score);
    button.append(found.phrase, score);
    item.append(button);
  } else {
    const note = document.createElement("span"), verdict = document.createElement("strong");
    note.className = "missing";
    verdict.textContent = "not found";
    note.append(`${found.phrase}: `, verdict, ` (${percent(found.score)}, under ${percent(threshold)})`);
    item.append(note);
  }
  $(".phrases", column.element).append(item);
  $(".downloads", column.element).hidden = false;
  drawBoxes(column);
  hold(column, found.found ? key : null);
}

// Attention of each branch at each word ------------------------------------------------------------------------------

function prepareAttention(column) {
  const {steps} = column.result, panel = $(".attention", column.element), slider = $("input", panel);
  panel.hidden = false;
  slider.max = steps.length - 1;
  $(".branches", panel).classList.toggle("one", steps[0].branches.length === 1);
  $(".branches", panel).style.setProperty("--across", String(Math.min(4, steps[0].branches.length)));
  const first = column.result.groundings[0]?.head ?? column.result.groundings[0]?.start ?? 0;
  slider.value = first;
  const move = () => showStep(column, Number(slider.value));
  slider.addEventListener("input", move);
  move();
}

function showStep(column, at) {
  const {word, branches} = column.result.steps[at], panel = $(".attention", column.element), place = document.createElement("b");
  place.textContent = word;
  $(".word-now", panel).replaceChildren(place, ` word ${at + 1} of ${column.result.steps.length}`);
  $("input", panel).setAttribute("aria-valuetext", `${word}, word ${at + 1} of ${column.result.steps.length}`);
  for (const node of column.element.querySelectorAll("[data-start]")) {
    node.classList.toggle("now", Number(node.dataset.start) <= at && at < Number(node.dataset.end));
  }
  $(".branches", panel).replaceChildren(...branches.map((branch, i) => {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas");
    const note = document.createElement("figcaption"), share = percent(branch.boxes[0].weight);
    paintAttention(canvas, state.image, column.size, branch, settings.glow);
    const who = branches.length > 1 ? `branch ${i + 1}${branch.voted ? " predicted it" : ""}, ` : "";
    note.textContent = sentence(`${who}best box ${share}`);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Attention of ${branches.length > 1 ? `branch ${i + 1}` : "the model"} at “${word}”`);
    figure.classList.toggle("voted", branch.voted && branches.length > 1);
    figure.append(canvas, note);
    return figure;
  }));
}

// Downloads ----------------------------------------------------------------------------------------------------------

async function download(column, kind) {
  const stem = state.name.replace(/\.[^.]*$/, "") || "photograph";
  if (kind === "json") {
    const answer = {...(column.result ?? column.size), image: state.name, phrases: column.found};
    return save(new Blob([JSON.stringify(answer, null, 1)], {type: "application/json"}), `${stem}.deixis.json`);
  }
  const groundings = column.result?.groundings ?? [];
  const keys = [...groundings.keys()].map(i => `w${i}`);
  keys.push(...[...column.found.keys()].filter(i => column.found[i].found).map(i => `p${i}`));
  const svg = composeSvg({
    photo: await dataUrl(),
    size: column.size,
    sentence: (column.result ? pieces(column.result) : []).map(p => ({...p, colour: p.owner === null ? null : colour(p.owner)})),
    marks: keys.map(key => meant(column, key)),
  });
  const file = kind === "svg" ? new Blob([svg], {type: "image/svg+xml"}) : await rasterise(svg);
  save(file, `${stem}.deixis.${kind}`);
}

/** The photograph, upright as on the page, as a data: address. */
async function dataUrl() {
  const canvas = document.createElement("canvas"), image = state.image;
  const scale = Math.min(1, 1600 / image.naturalWidth);
  canvas.width = Math.round(image.naturalWidth * scale);
  canvas.height = Math.round(image.naturalHeight * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.92);
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Start --------------------------------------------------------------------------------------------------------------

function firstImage(list) { return [...list].find(file => /^(image|video)\//.test(file.type)) ?? list[0]; }

function take(files) {
  const file = files.length ? firstImage(files) : null;
  if (file) show(file, file.name || "photograph");
}

function offer(select, names, none) {
  select.replaceChildren(...(none ? [new Option(none, "")] : []), ...names.map(name => new Option(name, name)));
}

const order = [...models.filter(captions), ...grounders].map(model => model.name);
offer($("#first"), order);
offer($("#second"), order, "no model");
$(".models").hidden = order.length < 2;
$("#ask").hidden = !grounders.length;
for (const {url, title} of settings.examples) {
  const button = document.createElement("button"), image = document.createElement("img");
  button.type = "button";
  button.title = title;
  image.src = url;
  image.alt = title;
  button.append(image);
  button.addEventListener("click", async () => show(await (await fetch(url)).blob(), url.split("/").at(-1)));
  $("#examples").append(button);
}

$("#file").addEventListener("change", event => { take(event.target.files); event.target.value = ""; });
for (const select of ["#first", "#second"]) $(select).addEventListener("change", captionPhoto);
$("#ask").addEventListener("submit", async event => {
  event.preventDefault();
  const phrase = $("#phrase").value.trim();
  if (!phrase) return $("#phrase").focus();
  if (!/[a-z0-9]/i.test(phrase)) return showError("Type English words, such as: a red hat.");
  showError("");
  try {
    await find(phrase);
    state.phrases.push(phrase);
    $("#phrase").select();
  } catch (error) {
    showError(error.message);
  }
});
document.addEventListener("paste", event => {
  if (event.clipboardData?.files.length) { event.preventDefault(); take(event.clipboardData.files); }
});
document.addEventListener("dragover", event => { event.preventDefault(); document.body.classList.add("dragging"); });
document.addEventListener("dragleave", event => { if (!event.relatedTarget) document.body.classList.remove("dragging"); });
document.addEventListener("drop", event => {
  event.preventDefault();
  document.body.classList.remove("dragging");
  take(event.dataTransfer.files);
});
document.addEventListener("keydown", event => {
  if (event.key === "Escape") state.columns.forEach(column => hold(column, null));
});

const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
$("#theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const next = dark ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
});
document.body.classList.add("ready");
