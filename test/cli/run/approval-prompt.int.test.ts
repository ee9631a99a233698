import { describe, expect, it } from 'vitest';
import { createPromptDecider } from '../../../src/cli/run/approval-prompt.ts';
import { until } from '../../support/until.ts';
import { requestWith } from './approval-samples.ts';
import { FakeTerminal } from './fake-terminal.ts';

describe('the prompt', () => {
  it.each([
    ['y', 'allow_once', 'allowed once'],
    ['Y', 'allow_once', 'allowed once'],
    ['s', 'allow_session', 'allowed for this session'],
    ['n', 'deny', 'denied'],
    ['\u0004', 'deny', 'denied'],
    ['y\r', 'allow_once', 'allowed once'],
  ])('takes %j as %s', async (key, decision, said) => {
    const terminal = new FakeTerminal();
    const answer = createPromptDecider(terminal.ports)(requestWith().request);
    await terminal.asks();
    terminal.press(key);
    expect(await answer).toEqual({ decision });
    expect(terminal.screen).toMatch(new RegExp(`y once, s for this session, n to deny \\(1\\d\\d s\\): ${said}\\n$`));
    expect([terminal.raw, terminal.opened, terminal.closed]).toEqual([false, 1, 1]);
  });

  it('takes nothing else for an answer', async () => {
    const terminal = new FakeTerminal();
    const answer = createPromptDecider(terminal.ports)(requestWith().request);
    await terminal.asks();
    for (const keys of ['\r', '\n', ' ', 'x', 'yes', 'y y', '\u001b', '\u001b[A', 'ny']) terminal.press(keys);
    terminal.press('n');
    expect(await answer).toEqual({ decision: 'deny' });
  });

  it('takes nothing that was typed before it could be read', async () => {
    const terminal = new FakeTerminal();
    const answer = createPromptDecider(terminal.ports)(requestWith().request);
    await until(() => terminal.raw, 'the keyboard');
    expect(terminal.screen).toContain('write_file');
    terminal.press('y');
    await terminal.asks();
    terminal.press('n');
    expect(await answer).toEqual({ decision: 'deny' });
  });

  it('shows all of it with v, and asks again', async () => {
    const terminal = new FakeTerminal();
    const content = 'x'.repeat(2_000);
    const answer = createPromptDecider(terminal.ports)(
      requestWith({ arguments: { content, token: 'hunter2' } }).request,
    );
    await terminal.asks();
    expect(terminal.screen).toContain(', v to view it in full');
    expect(terminal.screen).not.toContain('hunter2');
    terminal.press('v');
    await terminal.asks(2);
    expect(terminal.screen).toContain('hunter2');
    terminal.press('y');
    expect(await answer).toEqual({ decision: 'allow_once' });
  });

  it('shows all arguments before it takes an answer that allows them [approval.seen]', async () => {
    const terminal = new FakeTerminal();
    const request = requestWith({ arguments: { content: 'x'.repeat(2_000), last: 'the end' } }).request;
    const answer = createPromptDecider(terminal.ports)(request);
    await terminal.asks();
    expect(terminal.screen).not.toContain('x'.repeat(50).concat('"'));
    terminal.press('y');
    expect(terminal.screen).toContain('all arguments, before you allow it');
    // A key that was pressed twice is no answer to what is shown now.
    terminal.press('y');
    await terminal.asks(2);
    terminal.press('s');
    expect(await answer).toEqual({ decision: 'allow_session' });
  });

  it('denies arguments that it cannot show, and says so [approval.seen]', async () => {
    const terminal = new FakeTerminal();
    const request = requestWith({ arguments: { list: Array.from({ length: 3_000 }, (_, index) => index) } }).request;
    const answer = createPromptDecider(terminal.ports)(request);
    await terminal.asks();
    terminal.press('y');
    expect(await answer).toEqual({
      decision: 'deny',
      reason: 'the arguments have more than 2000 lines, which the prompt cannot show',
    });
    expect(terminal.screen).toMatch(/denied: the arguments cannot be shown\n$/);
  });

  it('asks about one call after the other', async () => {
    const terminal = new FakeTerminal();
    const decide = createPromptDecider(terminal.ports);
    const answers = ['first', 'second', 'third'].map((tool) => decide(requestWith({ tool }).request));
    await terminal.asks();
    expect(terminal.screen).toContain('first');
    expect(terminal.screen).toContain('(2 more after this one)');
    expect(terminal.screen).not.toContain('second');
    terminal.press('y');
    await terminal.asks(2);
    expect(terminal.screen).toContain('second');
    terminal.press('n');
    await terminal.asks(3);
    terminal.press('s');
    expect(await Promise.all(answers)).toEqual([
      { decision: 'allow_once' },
      { decision: 'deny' },
      { decision: 'allow_session' },
    ]);
  });

  it('does not ask about a call that was withdrawn in line', async () => {
    const terminal = new FakeTerminal();
    const decide = createPromptDecider(terminal.ports);
    const first = decide(requestWith({ tool: 'first' }).request);
    const sample = requestWith({ tool: 'second' });
    const second = decide(sample.request);
    await terminal.asks();
    terminal.press('s');
    await first;
    sample.withdraw('allowed for this session by another decision');
    expect(await second).toMatchObject({ decision: 'deny' });
    expect(terminal.screen).not.toContain('second');
  });

  it('ends its line and gives the keyboard back when no answer is wanted any more', async () => {
    const terminal = new FakeTerminal();
    const { request, withdraw } = requestWith();
    const answer = createPromptDecider(terminal.ports)(request);
    await terminal.asks();
    withdraw('no decision within 120000 ms; denied');
    expect(await answer).toMatchObject({ decision: 'deny' });
    expect(terminal.screen).toMatch(/: no decision within 120000 ms; denied\n$/);
    expect([terminal.raw, terminal.closed]).toEqual([false, 1]);
  });

  it('interrupts the run with Ctrl-C, and gives the keyboard back before', async () => {
    const terminal = new FakeTerminal();
    const { request, withdraw } = requestWith();
    const answer = createPromptDecider(terminal.ports)(request);
    await terminal.asks();
    terminal.press('\u0003');
    expect([terminal.interrupts, terminal.raw]).toEqual([1, false]);
    expect(terminal.screen).toMatch(/: interrupted\n$/);
    withdraw('the guest ended');
    expect(await answer).toMatchObject({ decision: 'deny' });
    expect(terminal.screen).toMatch(/: interrupted\n$/);
  });

  it('denies when the terminal goes away, or is not there', async () => {
    const terminal = new FakeTerminal();
    const answer = createPromptDecider(terminal.ports)(requestWith().request);
    await terminal.asks();
    terminal.hangUp();
    expect(await answer).toEqual({ decision: 'deny', reason: 'the terminal was closed' });
    expect([terminal.raw, terminal.closed]).toEqual([false, 1]);
    const open = () => {
      throw new Error('spear-run is in the background of its terminal');
    };
    expect(await createPromptDecider({ ...terminal.ports, open })(requestWith().request)).toEqual({
      decision: 'deny',
      reason: 'no prompt is possible: spear-run is in the background of its terminal',
    });
  });
});
