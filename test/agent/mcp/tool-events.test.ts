import { describe, expect, it, onTestFinished } from 'vitest';
import { ToolEvents, type ToolInvocation } from '../../../src/index.ts';

const invocation: ToolInvocation = {
  source: 'native',
  kind: 'tool',
  run: 'run-1',
  session: 'chat-1',
  server: null,
  tool: 'sum',
  callId: 'call_1',
  outcome: 'ok',
  durationMs: 1,
  bytes: 2,
};

describe('tool events', () => {
  it('reach every listener, until it stops', () => {
    const events = new ToolEvents();
    const seen: string[] = [];
    const stop = events.subscribe(({ tool }) => seen.push(`first ${tool}`));
    events.subscribe(({ tool }) => seen.push(`second ${tool}`));
    events.emit(invocation);
    stop();
    stop();
    events.emit(invocation);
    expect(seen).toEqual(['first sum', 'second sum', 'second sum']);
  });

  it('may be subscribed to and left while one is on its way', () => {
    const events = new ToolEvents();
    const seen: string[] = [];
    const stop = events.subscribe(() => {
      seen.push('once');
      stop();
      events.subscribe(() => seen.push('later'));
    });
    events.emit(invocation);
    expect(seen).toEqual(['once']);
    events.emit(invocation);
    expect(seen).toEqual(['once', 'later']);
  });

  it('survive a listener that throws: the others hear, the error surfaces by itself', async () => {
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    onTestFinished(() => {
      process.removeAllListeners('uncaughtException');
      for (const listener of others) process.on('uncaughtException', listener);
    });
    const surfaced = new Promise<Error>((resolve) => process.once('uncaughtException', resolve));
    const events = new ToolEvents();
    const seen: string[] = [];
    events.subscribe(() => {
      throw new Error('a bug of the listener');
    });
    events.subscribe(({ tool }) => seen.push(tool));
    events.emit(invocation);
    expect(seen).toEqual(['sum']);
    expect((await surfaced).message).toBe('a bug of the listener');
  });
});
