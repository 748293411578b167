// Shows one item after another to a rater. The server selects the items and stores the choices.

const $ = id => document.getElementById(id);
const figures = [...document.querySelectorAll('figure')];
const buttons = [...document.querySelectorAll('[data-choice]')];
const KEYS = { ArrowLeft: 'left', ArrowRight: 'right', ArrowDown: 'equal', ' ': 'equal' };
const NAME = 'deixis-study-name';
const TOKEN = document.querySelector('meta[name="deixis-token"]').content;  // required for requests that change the study

let status = null;    // last response of the server
let busy = false;   // a request is running: further keys are ignored

const photograph = item => `/v1/photographs/${item}`;

async function request(path, body) {
  const response = await fetch(path, body === undefined ? {} : {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Deixis-Token': TOKEN }, body: JSON.stringify(body),
  });
  const data = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(typeof data.detail === 'string' ? data.detail : `The server returned the error ${response.status}.`);
  return data;
}

async function step(path, body) {
  if (busy) return;
  busy = true;
  try {
    status = await request(path, body);
    $('problem').hidden = true;
    await show();
  } catch (error) {
    $('problem').textContent = error instanceof TypeError ? 'The server cannot be reached. Check that the study is still running.' : error.message;
    $('problem').hidden = false;
  } finally {
    busy = false;
    for (const one of [...figures, ...buttons]) one.classList.remove('chosen');
  }
}

async function show() {
  const { turn, done, total, ahead, more } = status;
  open(turn ? 'rating' : 'done');
  if (!turn) {
    $('summary').textContent = `You have rated ${total} ${total === 1 ? 'word' : 'words'}. ` +
      (more ? 'You can stop here, or rate more photographs.' : 'All photographs are rated.');
    $('more').hidden = !more;
    $('done').querySelector('h1').focus();
    return;
  }
  for (const figure of figures) {
    const image = figure.querySelector('img');
    image.src = photograph(turn.item);
    await image.decode().catch(() => { throw new Error('The photograph cannot be shown. Contact the organiser of the study.'); });
    figure.style.setProperty('--ratio', turn.width / turn.height);
    draw(figure.querySelector('svg'), turn[figure.dataset.side], turn.width, turn.height);
    image.alt = `Box ${figure.dataset.side === 'left' ? 'A' : 'B'} for ${turn.word}`;
  }
  $('word').textContent = turn.word;
  $('bar').max = total;
  $('bar').value = done;
  $('count').textContent = `${done + 1} of ${total}`;
  $('undo').disabled = done === 0;
  if (ahead !== null) new Image().src = photograph(ahead);
}

function draw(svg, [x1, y1, x2, y2], width, height) {
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const box = `M${x1} ${y1}H${x2}V${y2}H${x1}Z`;
  const shapes = [['shade', `M0 0H${width}V${height}H0Z${box}`], ['halo', box], ['box', box]].map(([kind, path]) => {
    const shape = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    shape.setAttribute('class', kind);
    shape.setAttribute('fill-rule', 'evenodd');
    shape.setAttribute('d', path);
    return shape;
  });
  svg.replaceChildren(...shapes);
}

function open(name) {
  for (const main of document.querySelectorAll('main')) main.hidden = main.id !== name;
}

function choose(choice) {
  if (busy || !status?.turn) return;
  for (const one of [...figures, ...buttons]) {
    one.classList.toggle('chosen', [one.dataset.side, one.dataset.choice].includes(choice));
  }
  step(`/v1/raters/${status.rater}/ratings`, { item: status.turn.item, choice });
}

const undo = () => { if (status && status.done > 0) step(`/v1/raters/${status.rater}/undo`, {}); };

function enter(name) {
  localStorage.setItem(NAME, name);
  sessionStorage.setItem(NAME, name);
  return step('/v1/raters', { name });
}

$('enter').addEventListener('submit', event => { event.preventDefault(); enter($('name').value); });
$('more').addEventListener('click', () => step(`/v1/raters/${status.rater}/more`, {}));
for (const id of ['undo', 'back']) $(id).addEventListener('click', undo);
for (const button of buttons) button.addEventListener('click', () => choose(button.dataset.choice));
for (const figure of figures) figure.addEventListener('click', () => choose(figure.dataset.side));

document.addEventListener('keydown', event => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !$('welcome').hidden) return;
  if (event.key === 'Backspace') {
    event.preventDefault();
    undo();
  } else if (event.key in KEYS && !$('rating').hidden) {
    if (event.key === ' ' && event.target.closest('button')) return;  // the focused button handles the key
    event.preventDefault();
    choose(KEYS[event.key]);
  }
});

$('name').value = localStorage.getItem(NAME) ?? '';
const savedName = sessionStorage.getItem(NAME);  // reloaded tab: continue without the welcome page
if (savedName) await enter(savedName);
if (!status) {
  open('welcome');
  $('name').focus();
}
