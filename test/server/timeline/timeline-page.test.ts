import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Timeline, TimelineEntry } from '../../../src/server/timeline/timeline-entry.ts';
import { timelinePage } from '../../../src/server/timeline/timeline-page.ts';
import { pageStyle } from '../../../src/server/timeline/timeline-page-style.ts';

const HOSTILE = `"'><script>alert(1)</script><img src=x onerror=alert(1)>&amp;\u202egnp.exe\u0007\u001b[2J\u200b\u2028\ud800</pre></style>`;
const text = { text: HOSTILE, cut_from: 10_000 };
const error = { code: HOSTILE, message: HOSTILE };

/** An entry of every kind, with every text of it hostile. */
const entries: readonly TimelineEntry[] = (['ok', 'failed', 'denied', 'unknown', 'open'] as const).flatMap((status) => {
  const about = { start_ms: 1, end_ms: status === 'open' ? null : 5, status, send: 1 };
  const call = {
    ordinal: HOSTILE,
    attempt: 2,
    server: HOSTILE,
    tool: HOSTILE,
    args: text,
    result: text,
    code: HOSTILE,
  };
  const decided = {
    server: HOSTILE,
    tool: HOSTILE,
    args: text,
    cause: HOSTILE,
    decision: HOSTILE,
    decided_by: HOSTILE,
  };
  const model = {
    turn: 1,
    backend: HOSTILE,
    model: HOSTILE,
    asked: { role: HOSTILE, text },
    first_ms: 2,
    tokens: null,
  };
  const calls = [{ id: HOSTILE, name: HOSTILE, args: text }];
  const made: TimelineEntry[] = [
    { kind: 'send', ...about, error },
    { kind: 'model', ...about, ...model, text, calls, error },
    { kind: 'tool', ...about, source: 'mcp', ...call },
    { kind: 'tool', ...about, source: 'native', ...call },
    { kind: 'tool', ...about, source: 'host', ...call },
    { kind: 'approval', ...about, ...decided, reason: HOSTILE },
    { kind: 'output', ...about, fd: 'stderr', at: 0, bytes: 1, text },
    { kind: 'input', ...about, bytes: 1, text },
    { kind: 'wait', ...about, timers: 2 },
    { kind: 'stream', ...about, what: 'frames', frames: 1, bytes: 1 },
    { kind: 'stream', ...about, what: 'gone', frames: 0, bytes: 0 },
    { kind: 'reply', ...about, call: 3, errno: HOSTILE, body: text },
    { kind: 'resumed', ...about, attempt: 2, spear: HOSTILE },
    { kind: 'end', ...about, reason: HOSTILE, exit_code: 1, message: HOSTILE },
  ];
  return made;
});

const timeline: Timeline = {
  run: HOSTILE,
  started: Number.NaN,
  spear: HOSTILE,
  task: HOSTILE,
  module: { path: HOSTILE, sha256: HOSTILE, bytes: 1 },
  args: [text],
  env: [HOSTILE],
  attempts: [{ attempt: 1, start_ms: 0, end_ms: 5 }],
  ended: { reason: HOSTILE, exit_code: null, message: HOSTILE },
  torn_bytes: 1,
  totals: {
    ...{ model_turns: 1, prompt_tokens: 1, completion_tokens: 1, model_ms: 1, tool_calls: 1, tool_ms: 1, unknown: 1 },
    ...{ approvals: 1, approval_ms: 1, stdout_bytes: 1, stderr_bytes: 1 },
  },
  entries,
};

const page = timelinePage(timeline);
const ownElements = new Set(
  `!doctype html head meta title style body header h1 p ul li dl dt dd nav label input span main div details summary svg
   rect b figure figcaption pre`.split(/\s+/),
);

describe('the page of a run', () => {
  it('has no element, attribute or character of what it shows [journal.show.page]', () => {
    const tags = [...page.matchAll(/<\/?([!a-z0-9]+)([^>]*)>/gi)];
    expect(tags.length).toBeGreaterThan(500);
    for (const [, name = '', attributes = ''] of tags) {
      expect(ownElements).toContain(name.toLowerCase());
      expect(attributes).not.toMatch(/\son|\ssrc|href|style=|alert/i);
    }
    expect(page.split('</style>')).toHaveLength(2);
    expect(page.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}]/u);
    expect(page).toContain('\\u{202e}gnp.exe');
    expect(page.split('&lt;script&gt;').length).toBeGreaterThan(100);
  });

  it('loads nothing, and its policy lets nothing be loaded or run [journal.show.page]', () => {
    const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page)?.[1];
    const style = `style-src 'sha256-${hash('sha256', pageStyle, 'base64')}'`;
    expect(policy).toBe(`default-src 'none'; ${style}; base-uri 'none'; form-action 'none'`);
    expect(page).toContain(`<style>${pageStyle}</style>`);
    expect(page).not.toMatch(/https?:|url\(|@import/);
    expect(page.indexOf('Content-Security-Policy')).toBeLessThan(page.indexOf('<title>'));
  });

  it('says what was cut, and offers the kinds that there are', () => {
    expect(page).toContain('truncated, 10000 characters in all');
    expect(page).toContain('id="show-approval"');
    expect(timelinePage({ ...timeline, entries: entries.filter(({ kind }) => kind === 'end') })).not.toContain(
      'id="show-',
    );
  });
});
