// @ts-check
// Makes pages live. Everything works without it: it only asks for the page again while somebody looks,
// puts in what changed, and turns times of UTC into local ones.

/** How often the page is asked for, in milliseconds; longer while the broker does not answer. */
const EVERY_MS = 5000;
const LOST_EVERY_MS = 2000;
/** How soon it is asked for once the broker says that something happened. */
const SOON_MS = 500;
/** What happens, in the words of the stream of events. */
const HAPPENS = ['death', 'dead-lettered', 'dropped', 'quarantined', 'redriven', 'redrive', 'consumer-timeout',
  'summary', 'gap'];
/** Shows times as people here write them. */
const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** The text of the answer that may become HTML now; everything else is refused. @type {string|null} */
let answered = null;

/** The one policy by which a text becomes HTML: an answer of a page of ours, and nothing else. */
const policy = makePolicy();

/** @returns {{createHTML: (text: string) => string}} */
function makePolicy() {
  const rules = {
    /** @param {string} text */
    createHTML(text) {
      if (answered === null || text !== answered) throw new TypeError('not an answer of this page');
      return text;
    },
  };
  const types = /** @type {any} */ (globalThis).trustedTypes;
  return types ? types.createPolicy('coroner', rules) : rules;
}

/**
 * Turns times of UTC below an element into local ones; the title keeps UTC.
 * @param {ParentNode} within
 */
function localise(within) {
  for (const time of within.querySelectorAll('time')) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = LOCAL.format(at);
  }
}

/**
 * A selector of the element with the focus, that finds it again when its surroundings were replaced.
 * @param {Element} within
 * @returns {(() => void)|null}
 */
function keepFocus(within) {
  const focused = document.activeElement;
  if (!focused || focused === document.body || !within.contains(focused)) return null;
  const href = focused.getAttribute('href');
  const selector = focused.id ? `#${CSS.escape(focused.id)}` : href ? `a[href="${CSS.escape(href)}"]` : null;
  const [x, y] = [window.scrollX, window.scrollY];
  return () => {
    const again = selector ? document.querySelector(selector) : null;
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
    window.scrollTo(x, y);
  };
}

/**
 * Puts an element in the place of another one, as it is open, scrolled and focused.
 * @param {Element} old
 * @param {Element} fresh
 */
function swap(old, fresh) {
  const open = new Set([...old.querySelectorAll('details[open] > summary')].map((one) => one.textContent));
  for (const summary of fresh.querySelectorAll('details > summary')) {
    if (open.has(summary.textContent)) summary.parentElement?.setAttribute('open', '');
  }
  const refocus = keepFocus(old);
  old.replaceWith(fresh);
  refocus?.();
}

/**
 * Whether somebody is typing in an element, or has it selected: then it waits.
 * @param {Element} element
 */
function isInUse(element) {
  const focused = document.activeElement;
  const types = focused instanceof HTMLInputElement || focused instanceof HTMLSelectElement;
  const selection = document.getSelection();
  const selects = selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
  return (types && element.contains(focused)) || selects;
}

/**
 * Puts in what changed.
 * @param {string} text
 */
function show(text) {
  const template = document.createElement('template');
  answered = text;
  try {
    template.innerHTML = policy.createHTML(text); // Trusted Types
  } finally {
    answered = null;
  }
  localise(template.content);
  for (const fresh of template.content.querySelectorAll('[data-live]')) {
    const old = document.getElementById(fresh.id);
    if (old && !old.isEqualNode(fresh) && !isInUse(old)) swap(old, fresh);
  }
}

/**
 * Says something above the page, or nothing.
 * @param {string} text
 * @param {boolean} isStale
 */
function say(text, isStale) {
  const live = document.getElementById('live');
  document.body.classList.toggle('stale', isStale);
  if (!live || live.textContent === text) return;
  live.textContent = text;
  live.hidden = text === '';
}

/** Whether the page is asked for over and over. */
const isLive = document.querySelector('[data-live]') !== null && document.getElementById('live') !== null;
/** @type {number|undefined} */
let timer;
let asking = false;
let paused = false;
/** Whether it is to be asked for soon. */
let hurried = false;
/** The stream of events that this tab listens to. @type {EventSource|null} */
let stream = null;
let lastGood = new Date();

/** @param {number} ms */
function later(ms) {
  clearTimeout(timer);
  if (!document.hidden) timer = window.setTimeout(refresh, ms);
}

/** Something happened. Pages that take the broker longer to make are not hurried. */
function soon() {
  if (hurried || paused || pace() > EVERY_MS) return;
  hurried = true;
  later(SOON_MS);
}

/** Listens to what happens while somebody looks. Without it the page is asked for over and over all the same. */
function listen() {
  stream?.close();
  stream = document.hidden ? null : new EventSource('/ui/events/stream');
  for (const word of HAPPENS) stream?.addEventListener(word, soon);
}

/** Gives the page a button that holds what it shows. */
function offerPause() {
  const pause = document.getElementById('pause');
  if (!pause) return;
  pause.hidden = false;
  pause.addEventListener('click', () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    if (!paused) void refresh();
  });
}

/** How often this page is asked for: some take the broker longer to make. */
function pace() {
  return Number(document.getElementById('main')?.dataset.every) || EVERY_MS;
}

/** Asks for the page again, and puts in what changed. */
async function refresh() {
  hurried = false;
  if (asking || paused || document.hidden) return;
  asking = true;
  let wait = pace();
  try {
    const answer = await fetch(location.href, {
      headers: { 'X-Coroner-Fragment': '1' },
      cache: 'no-store',
      signal: AbortSignal.timeout(20000),
    });
    if (answer.status === 401) {
      say('Logged out: load the page again to log in.', true);
      return;
    }
    const text = await answer.text();
    if (answer.headers.get('Content-Type')?.startsWith('text/html')) {
      if (answer.ok) {
        show(text);
        lastGood = new Date();
        say('', false);
      } else if (answer.status === 404) {
        say('What this page shows is gone.', true);
      } else {
        say(`The broker refused (${answer.status}). This is as of ${LOCAL.format(lastGood)}.`, true);
      }
    }
  } catch {
    say(`The broker does not answer. This is as of ${LOCAL.format(lastGood)}.`, true);
    wait = LOST_EVERY_MS;
  } finally {
    asking = false;
  }
  later(wait);
}

/** Sends a form as soon as something is chosen, where that only shows something else. */
function submitOnChange() {
  for (const field of document.querySelectorAll('select[data-submit]')) {
    field.addEventListener('change', () => /** @type {HTMLSelectElement} */ (field).form?.requestSubmit());
  }
}

/** Gives each command a button that copies it. */
function offerCopies() {
  if (!navigator.clipboard) return;
  document.addEventListener('click', (event) => {
    const code = event.target instanceof Element ? event.target.closest('code') : null;
    const text = code?.textContent;
    if (!code || !text?.startsWith('coroner ') || !document.getSelection()?.isCollapsed) return;
    navigator.clipboard.writeText(text).then(() => say('The command is copied.', false), () => {});
  });
}

localise(document);
submitOnChange();
offerCopies();
if (isLive) {
  document.addEventListener('visibilitychange', () => {
    listen();
    if (document.hidden) clearTimeout(timer);
    else void refresh();
  });
  offerPause();
  listen();
  later(pace());
}
