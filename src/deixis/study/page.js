// Asks a rater for one choice after another. The server says what is next and keeps what was chosen.

const $ = id => document.getElementById(id);
const figures = [...document.querySelectorAll('figure')];
const buttons = [...document.querySelectorAll('[data-choice]')];
const KEYS = { ArrowLeft: 'left', ArrowRight: 'right', ArrowDown: 'equal', ' ': 'equal' };
const NAME = 'deixis-study-name';
const TOKEN = document.querySelector('meta[name="deixis-token"]').content;  // the server refuses changes without it

let desk = null;    // what the server told last
let busy = false;   // a choice is on its way: keys that come too soon are not taken for the next word

const photograph = item => `/v1/photographs/${item}`;

async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? {} : {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Deixis-Token': TOKEN }, body: JSON.stringify(body),
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(typeof told.detail === 'string' ? told.detail : `The server answered ${answer.status}.`);
  return told;
}

async function step(path, body) {
  if (busy) return;
  busy = true;
  try {
    desk = await ask(path, body);
    $('problem').hidden = true;
    await show();
  } catch (error) {
    $('problem').textContent = error instanceof TypeError ? 'The server cannot be reached. Is the study still running?' : error.message;
    $('problem').hidden = false;
  } finally {
    busy = false;
    for (const one of [...figures, ...buttons]) one.classList.remove('chosen');
  }
}

async function show() {
  const { turn, done, total, ahead, more } = desk;
  open(turn ? 'rating' : 'done');
  if (!turn) {
    $('summary').textContent = `You have rated ${total} ${total === 1 ? 'word' : 'words'}. ` +
      (more ? 'You can stop here, or rate some more.' : 'There are no photographs left for you.');
    $('more').hidden = !more;
    $('done').querySelector('h1').focus();
    return;
  }
  for (const figure of figures) {
    const image = figure.querySelector('img');
    image.src = photograph(turn.item);
    await image.decode().catch(() => { throw new Error('The photograph cannot be shown; tell who runs this study.'); });
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
  if (busy || !desk?.turn) return;
  for (const one of [...figures, ...buttons]) {
    one.classList.toggle('chosen', [one.dataset.side, one.dataset.choice].includes(choice));
  }
  step(`/v1/raters/${desk.rater}/ratings`, { item: desk.turn.item, choice });
}

const undo = () => { if (desk && desk.done > 0) step(`/v1/raters/${desk.rater}/undo`, {}); };

function enter(name) {
  localStorage.setItem(NAME, name);
  sessionStorage.setItem(NAME, name);
  return step('/v1/raters', { name });
}

$('enter').addEventListener('submit', event => { event.preventDefault(); enter($('name').value); });
$('more').addEventListener('click', () => step(`/v1/raters/${desk.rater}/more`, {}));
for (const id of ['undo', 'back']) $(id).addEventListener('click', undo);
for (const button of buttons) button.addEventListener('click', () => choose(button.dataset.choice));
for (const figure of figures) figure.addEventListener('click', () => choose(figure.dataset.side));

document.addEventListener('keydown', event => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !$('welcome').hidden) return;
  if (event.key === 'Backspace') {
    event.preventDefault();
    undo();
  } else if (event.key in KEYS && !$('rating').hidden) {
    if (event.key === ' ' && event.target.closest('button')) return;  // a button that has the focus is pressed
    event.preventDefault();
    choose(KEYS[event.key]);
  }
});

$('name').value = localStorage.getItem(NAME) ?? '';
const here = sessionStorage.getItem(NAME);  // the same tab, loaded again: go on at once
if (here) await enter(here);
if (!desk) {
  open('welcome');
  $('name').focus();
}
