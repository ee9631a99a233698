import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ReplayLog } from '../../../../src/runtime/durable/guest/replay-log.ts';
import { WaitPoint } from '../../../../src/runtime/guest/descriptors/readiness.ts';
import { HostLink, type ThreadPort } from '../../../../src/runtime/guest/hostcalls/host-link.ts';
import { parseEvents, type ReplayEvent } from '../../../../src/runtime/port/journal-events.ts';
import type { HostMessage } from '../../../../src/runtime/port/port.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const turn = () => vi.advanceTimersByTimeAsync(0);

const reply = (call: number, body: string): HostMessage => [0, call, 'done', null, body, '{}'];

/** A link on a port made of two lists: posted messages, and arrived messages that were not taken. */
function open(events: readonly ReplayEvent[] = [], continuesLive = true) {
  const posted: unknown[] = [];
  const arrived: HostMessage[] = [];
  const replayLog = new ReplayLog({ events, continuesLive, wakesAtStart: false }, null, () => {
    throw new Error('halted');
  });
  const port = {
    post: (message: unknown) => posted.push(message),
    takeArrived: () => {
      for (const message of arrived.splice(0)) link.receive(message);
    },
  };
  const link = new HostLink(port as unknown as ThreadPort, 0, new WaitPoint(), replayLog);
  const told: string[] = [];
  const ask = (name: string) => link.call(['mcp_open', name], (heard) => told.push(`${name}: ${heard[2]}`));
  return { link, replayLog, posted, arrived, told, ask };
}

/** Two calls whose replies come out of order, in one poll; a third is never answered. */
function guest({ ask, link, arrived }: ReturnType<typeof open>, replies: readonly HostMessage[]) {
  for (const name of ['one', 'two', 'three']) ask(name);
  arrived.push(...replies);
  link.drain();
}
const outOfOrder = [reply(2, 'second'), reply(1, 'first')];

function recorded(): readonly ReplayEvent[] {
  const opened = open();
  guest(opened, outOfOrder);
  opened.link.send(0, ['notice', 'flush']);
  const written = opened.posted.flatMap((post) => {
    const [text] = post as [unknown];
    return typeof text === 'string' ? parseEvents(text) : [];
  });
  const taken = [...outOfOrder];
  return written.map((event) => ({ ...event, message: event.kind === 'r' ? (taken.shift() ?? null) : null }));
}

describe('a link of a guest that is recorded', () => {
  it('posts what was recorded with the message that follows', () => {
    const { ask, posted } = open();
    ask('one');
    expect(posted).toEqual([[expect.stringMatching(/^0\.1:[0-9a-f]{8}:k $/), [0, 1, 0, 'mcp_open', 'one']]]);
  });

  it('delivers replies out of order, and records each with its call', () => {
    const opened = open();
    guest(opened, outOfOrder);
    expect(opened.told).toEqual(['two: second', 'one: first']);
    expect(parseEvents(opened.replayLog.takeUnsent()).map(({ kind, value }) => kind + value)).toEqual(['r2', 'r1']);
    expect(opened.link.unanswered).toBe(1);
  });
});

describe('a link of a guest that is replayed', () => {
  it('delivers what was recorded, and not what the port has', () => {
    const opened = open(recorded(), false);
    guest(opened, [reply(1, 'from the port')]);
    expect(opened.told).toEqual(['two: second', 'one: first']);
    expect(opened.arrived).toHaveLength(1);
  });

  it('holds back what arrives meanwhile, and delivers it after the last recorded event, in its order', async () => {
    const opened = open(recorded());
    opened.link.receive(reply(3, 'third'));
    guest(opened, []);
    expect(opened.told).toEqual(['two: second', 'one: first']);
    opened.link.send(0, ['notice', 'flush']); // the last that was recorded
    expect(opened.replayLog.isReplaying).toBe(false);
    const more = opened.ask('four');
    opened.link.receive(reply(more, 'fourth'));
    expect(opened.told).toHaveLength(2);
    await turn();
    expect(opened.told.slice(2)).toEqual(['three: third', 'four: fourth']);
  });

  it('delivers what was held back at the next poll, where that comes before the next turn', () => {
    const opened = open(recorded());
    opened.link.receive(reply(3, 'third'));
    guest(opened, []);
    opened.link.send(0, ['notice', 'flush']);
    opened.ask('four');
    opened.arrived.push(reply(4, 'fourth'));
    opened.link.drain();
    expect(opened.told.slice(2)).toEqual(['three: third', 'four: fourth']);
  });

  it('records what was held back when it is delivered', async () => {
    const opened = open(recorded());
    opened.link.receive(reply(3, 'third'));
    guest(opened, []);
    opened.link.send(0, ['notice', 'flush']);
    await turn();
    expect(parseEvents(opened.replayLog.takeUnsent()).map(({ kind, value }) => kind + value)).toEqual(['r3']);
  });

  it('holds everything back for ever where the run is not resumed', async () => {
    const opened = open(recorded(), false);
    opened.link.receive(reply(3, 'third'));
    guest(opened, []);
    await turn();
    expect(opened.told).toEqual(['two: second', 'one: first']);
  });
});
