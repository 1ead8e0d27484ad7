// Shows what the server tells. Texts come from agents: they become text nodes, never markup.
'use strict';
(() => {
  const id = name => document.getElementById(name);
  const marks = { missing: '○', established: '◐', grounded: '●' };
  const cards = new Map();
  // The token is in the cookie by now: it needn't stay in the address and the history.
  if (location.search) history.replaceState(null, '', location.pathname);

  const make = (tag, name, text) => {
    const e = document.createElement(tag);
    if (name) e.className = name;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const count = (n, word) => n + ' ' + word + (n === 1 ? '' : 's');

  const line = call => {
    const li = make('li', call.settled ? 'kc-code' : 'kc-code kc-open');
    li.append(make('span', 'kc-when', call.index + '  ' + call.since), call.command);
    if (call.class !== 'delivered') li.append(make('span', 'kc-class', call.class));
    for (const use of call.uses || []) li.append(make('span', 'kc-uses', use));
    if (call.message) li.append(make('span', 'kc-uses', call.message));
    return li;
  };

  const draw = (card, episode) => {
    const heading = make('h2');
    heading.append(episode.case + (episode.attempt > 1 ? ', attempt ' + episode.attempt : ''));
    const state = episode.ended ? (episode.verdict || 'ended') : 'running';
    heading.append(make('span', 'kc-badge kc-' + ({ right: 'right', wrong: 'wrong', running: 'running' }[state] || 'unscored'), state));
    heading.append(make('span', 'kc-small', [episode.ended, count(episode.count, 'call'),
      episode.groups ? 'evidence ' + episode.established + ' of ' + episode.groups : ''].filter(Boolean).join(' · ')));
    const both = make('div', 'kc-both');
    const left = make('div'), right = make('div');
    const list = make('ol', 'kc-list');
    list.tabIndex = 0;
    list.setAttribute('aria-label', 'Calls');
    if (episode.count > episode.calls.length) list.append(make('li', 'kc-small', 'The first ' + count(episode.count - episode.calls.length, 'call') + ' left out.'));
    for (const call of episode.calls) list.append(line(call));
    if (!episode.count) list.append(make('li', 'kc-small', 'No calls yet.'));
    left.append(list);
    const facts = make('ol', 'kc-facts');
    for (const m of episode.milestones) {
      const li = make('li', m.call ? 'kc-new' : '', (marks[m.state] || '○') + ' ' + m.fact);
      li.append(make('span', 'kc-small', m.group + (m.call ? ', by call ' + m.call : '')));
      facts.append(li);
    }
    right.append(facts);
    both.append(left, right);
    const parts = [heading, both];
    if (episode.drawing) {
      const old = card.querySelector('details');
      const details = make('details');
      details.open = old ? old.open : !episode.ended;
      details.append(make('summary', '', 'Evidence graph'));
      const box = make('div', 'kc-scroll kc-drawing');
      box.tabIndex = 0;
      const svg = new DOMParser().parseFromString(episode.drawing, 'image/svg+xml').documentElement;
      if (svg.localName === 'svg') box.append(document.importNode(svg, true));
      details.append(box);
      parts.push(details);
    }
    const before = card.querySelector('.kc-list');
    const top = before ? before.scrollTop : 0;
    const follow = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 8;
    const focused = before && before === document.activeElement;
    card.replaceChildren(...parts);
    if (focused) list.focus({ preventScroll: true });
    list.scrollTop = follow ? list.scrollHeight : top;
  };

  const show = message => {
    const t = message.totals;
    id('agent').textContent = t.agent;
    id('totals').textContent = t.ended + ' of ' + count(t.planned, 'episode') + ' ended, ' + t.running + ' running, ' + t.right + ' right, ' + t.closed + ' with complete evidence';
    document.title = t.ended + '/' + t.planned + ' · kubecase watch';
    if (t.over) id('connection').textContent = t.over;
    for (const episode of message.episodes) {
      let card = cards.get(episode.id);
      if (!card) {
        card = make('article');
        cards.set(episode.id, card);
      }
      draw(card, episode);
    }
    for (const [key, card] of cards) {
      if (!t.shown.includes(key)) { card.remove(); cards.delete(key); }
    }
    // The latest above; what is in its place already stays, so that no one's scrolling is lost.
    let last = null;
    for (const key of [...t.shown].reverse()) {
      const card = cards.get(key);
      if (!card) continue;
      const next = last ? last.nextElementSibling : id('episodes').firstElementChild;
      if (next !== card) (last ? last.after(card) : id('episodes').prepend(card));
      last = card;
    }
    id('empty').hidden = cards.size > 0;
    return Boolean(t.over);
  };

  const source = new EventSource('/events'); // it reconnects by itself
  let over = false;
  source.onopen = () => { if (!over) id('connection').textContent = 'live'; };
  source.onerror = () => { if (!over) id('connection').textContent = source.readyState === EventSource.CLOSED ? 'the connection is closed: open the printed address again' : 'reconnecting'; };
  source.onmessage = event => { over = show(JSON.parse(event.data)); };
})();
