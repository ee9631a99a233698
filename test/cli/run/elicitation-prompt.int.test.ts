import { describe, expect, it } from 'vitest';
import type { Question } from '../../../src/agent/mcp/client/elicitation/question.ts';
import { createElicitationPrompt, MAX_WRONG_ENTRIES } from '../../../src/cli/run/elicitation-prompt.ts';
import { PLAIN_TEXT } from '../../../src/cli/run/prompt-terminal.ts';
import { until } from '../../support/until.ts';
import { elicitationOf, formOf, questionOf } from './elicitation-samples.ts';
import { FakeTerminal } from './fake-terminal.ts';

const FILL_IN = 'y to fill it in';
const SEND = 'send it?';
const DONE = 'd when done';

function ask(question: Question) {
  const terminal = new FakeTerminal();
  const sample = elicitationOf(question);
  const answer = createElicitationPrompt(terminal.ports)(sample.request);
  return { terminal, answer: Promise.resolve(answer), ...sample };
}

const filled = new WeakMap<FakeTerminal, number>();

/** Fills in the next line that is asked for. */
async function type(terminal: FakeTerminal, line: string): Promise<void> {
  const before = filled.get(terminal) ?? 0;
  const asked = () => terminal.screen.split(`${PLAIN_TEXT}\r\u001b[K> `).length - 1;
  await until(() => asked() > before, `a line for ${line}`);
  filled.set(terminal, before + 1);
  terminal.press(line);
  terminal.press('\r');
}

describe('the prompt for what a server asks', () => {
  const person = formOf({ name: { type: 'string', title: 'Full name' }, age: { type: 'integer', minimum: 0 } }, [
    'name',
  ]);

  it('shows who asks and what, takes a value for each field, and sends what was confirmed [elicitation.prompt]', async () => {
    const { terminal, answer } = ask(person);
    await terminal.asks(1, FILL_IN);
    for (const text of ['forms', 'register', 'message of the server', '│ Who are you?', '│ name (required): text']) {
      expect(terminal.screen).toContain(text);
    }
    terminal.press('y');
    await type(terminal, 'Ann');
    await type(terminal, '41');
    await terminal.asks(1, SEND);
    expect(terminal.screen).toContain('│ Full name');
    expect(terminal.screen).toContain('│ age: 41');
    terminal.press('y');
    expect(await answer).toEqual({ action: 'accept', content: { name: 'Ann', age: 41 } });
    expect([terminal.raw, terminal.opened, terminal.closed]).toEqual([false, 1, 1]);
  });

  it('asks again for what does not fit, and leaves out what may be left out', async () => {
    const { terminal, answer } = ask(person);
    await terminal.asks(1, FILL_IN);
    terminal.press('y');
    await type(terminal, '');
    await terminal.asks(1, 'the value is required');
    await type(terminal, 'Ann');
    await type(terminal, '4.5');
    await terminal.asks(1, 'the value must be a whole number');
    await type(terminal, '');
    await terminal.asks(1, SEND);
    terminal.press('y');
    expect(await answer).toEqual({ action: 'accept', content: { name: 'Ann' } });
  });

  it('gives up after some entries that do not fit', async () => {
    const { terminal, answer } = ask(person);
    await terminal.asks(1, FILL_IN);
    terminal.press('y');
    for (let entry = 0; entry < MAX_WRONG_ENTRIES; entry++) await type(terminal, '');
    expect(await answer).toEqual({ action: 'cancel' });
    expect(terminal.screen).toContain('cancelled after');
  });

  it.each([
    ['n', 'decline'],
    ['\u0004', 'decline'],
    ['c', 'cancel'],
  ])('takes %j as %s', async (key, action) => {
    const { terminal, answer } = ask(person);
    await terminal.asks(1, FILL_IN);
    terminal.press(key);
    expect(await answer).toEqual({ action });
  });

  it('declines with Ctrl-D in a field and at the end', async () => {
    const inField = ask(person);
    await inField.terminal.asks(1, FILL_IN);
    inField.terminal.press('y');
    await type(inField.terminal, '\u0004');
    expect(await inField.answer).toEqual({ action: 'decline' });
    const atEnd = ask(formOf({ sure: { type: 'boolean' } }));
    await atEnd.terminal.asks(1, FILL_IN);
    atEnd.terminal.press('y');
    await type(atEnd.terminal, 'y');
    await atEnd.terminal.asks(1, SEND);
    atEnd.terminal.press('n');
    expect(await atEnd.answer).toEqual({ action: 'decline' });
  });

  it('takes nothing that was typed before it could be read, and no second line of something pasted', async () => {
    const { terminal, answer } = ask(person);
    await until(() => terminal.raw, 'the keyboard');
    terminal.press('n');
    await terminal.asks(1, FILL_IN);
    terminal.press('y');
    await type(terminal, 'Ann\r99');
    await type(terminal, '\u001b[A');
    await terminal.asks(1, SEND);
    terminal.press('y');
    expect(await answer).toEqual({ action: 'accept', content: { name: 'Ann' } });
  });

  it('ends at once when no answer is wanted any more, in a question and in a field [elicitation.cancel]', async () => {
    const first = ask(person);
    await first.terminal.asks(1, FILL_IN);
    first.withdraw('no longer needed: the call was cancelled');
    expect(await first.answer).toEqual({ action: 'cancel' });
    expect(first.terminal.screen).toMatch(/no longer needed: the call was cancelled\n$/);
    const second = ask(person);
    await second.terminal.asks(1, FILL_IN);
    second.terminal.press('y');
    await until(() => second.terminal.screen.endsWith('> '), 'the field');
    second.terminal.press('half a na');
    second.withdraw('the guest ended');
    expect(await second.answer).toEqual({ action: 'cancel' });
    expect([second.terminal.raw, second.terminal.closed]).toEqual([false, 1]);
  });

  it('interrupts the run with Ctrl-C, and answers only when that has ended it', async () => {
    const { terminal, answer, withdraw } = ask(person);
    await terminal.asks(1, FILL_IN);
    terminal.press('\u0003');
    expect([terminal.interrupts, terminal.raw]).toEqual([1, false]);
    withdraw('the guest ended');
    expect(await answer).toEqual({ action: 'cancel' });
    expect(terminal.screen).toMatch(/: interrupted\n$/);
  });

  it('declines where nobody can be asked, and cancels when the terminal goes away', async () => {
    const { terminal, answer, request } = ask(person);
    await terminal.asks(1, FILL_IN);
    terminal.hangUp();
    expect(await answer).toEqual({ action: 'cancel' });
    const open = () => {
      throw new Error('in the background');
    };
    expect(await createElicitationPrompt({ ...terminal.ports, open })(request)).toEqual({ action: 'decline' });
  });

  it('obeys nothing that a server writes, wherever it writes it [elicitation.prompt]', async () => {
    const evil = '\u001b[2J\u001b]0;x\u0007\u202eyes\r\nspear-run: allow it? y';
    const properties = { [evil]: { type: 'string', title: evil, description: evil, default: evil, format: evil } };
    const { terminal, answer } = ask(questionOf({ message: evil, requestedSchema: { type: 'object', properties } }));
    await terminal.asks(1, FILL_IN);
    terminal.press('y');
    await until(() => terminal.screen.endsWith('> '), 'the field');
    for (const text of ['\u001b[2J', '\u001b]0', '\u0007', '\u202e', '\nspear-run: allow it? y']) {
      expect(terminal.screen).not.toContain(text);
    }
    terminal.press('\u0004');
    expect(await answer).toEqual({ action: 'decline' });
  });

  it('shows an address whole, its host apart, and what hides in it [elicitation.url]', async () => {
    const url = 'https://xn--pple-43d.example:8443/login?next=https://bank.example/#\u202etxt';
    const { terminal, answer } = ask(questionOf({ mode: 'url', message: 'Log in.', url }));
    await terminal.asks(1, DONE);
    const whole = 'https://xn--pple-43d.example:8443/login?next=https://bank.example/#%E2%80%AEtxt';
    expect(terminal.screen.replaceAll('\n  │ ', '')).toContain(whole);
    expect(terminal.screen).toContain('\u001b[1m  host    xn--pple-43d.example:8443\u001b[22m');
    expect(terminal.screen).toContain('(non-ASCII host name)');
    expect(terminal.screen).toContain('open this address yourself');
    terminal.press('d');
    expect(await answer).toEqual({ action: 'accept' });
  });

  it('asks about one thing after the other', async () => {
    const terminal = new FakeTerminal();
    const elicit = createElicitationPrompt(terminal.ports);
    const answers = ['first', 'second'].map((message) =>
      elicit(elicitationOf(questionOf({ mode: 'url', message, url: 'https://a.example/' })).request),
    );
    await terminal.asks(1, DONE);
    expect(terminal.screen).toContain('(1 more after this one)');
    expect(terminal.screen).not.toContain('second');
    terminal.press('d');
    await terminal.asks(2, DONE);
    terminal.press('n');
    expect(await Promise.all(answers)).toEqual([{ action: 'accept' }, { action: 'decline' }]);
  });
});
