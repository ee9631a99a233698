import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MAX_QUESTIONS_PER_CALL } from '../../../src/agent/mcp/client/elicitation/call-questions.ts';
import { MAX_OPEN_QUESTIONS } from '../../../src/agent/mcp/client/elicitation/server-questions.ts';
import { McpToolbox } from '../../../src/index.ts';
import { inEnoughTime } from '../../support/enough-time.ts';
import { type Answer, callTool, guestOf, outcome } from '../approvals/approval-host.ts';
import { bothEras, everything, featured, Person, roots } from './asking-servers.ts';
import { eventually, fixture, stdioRecord } from './client/pool-samples.ts';
import { type McpHost, openHost } from './mcp-host.ts';

const textOf = ({ content }: Answer, index = 0) => content?.[index]?.text ?? '';
const linesIn = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : []);

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'spear-elicitation-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}
const accepted = { action: 'accept', content: { name: 'Ann' } } as const;
const refusals = ({ log }: McpHost) =>
  log.filter(({ event }) => event === 'question_refused').map(({ message }) => message);

describe.each(['stdio', 'streamable_http', 'http_sse_legacy'] as const)(
  'a server of the old era over %s',
  (transport) => {
    it('asks for a form, an address and roots during its calls [elicitation.ask] [elicitation.roots]', async () => {
      const host = await openHost([featured(await everything(transport))]);
      const person = new Person();
      const guest = guestOf(host, { task: 'notes', elicit: person.elicit });
      // It lists such tools once it was told what it may ask.
      await eventually(async () => {
        const list = await guest.listTools('every', AbortSignal.timeout(45_000));
        expect(JSON.stringify(list)).toContain('trigger-url-elicitation');
        expect(JSON.stringify(list)).toContain('get-roots-list');
      });
      const form = callTool(guest, 'every', 'trigger-elicitation-request');
      const asked = await person.next();
      expect(asked).toMatchObject({
        mode: 'form',
        task: 'notes',
        run: 'run-1',
        server: 'every',
        tool: 'trigger-elicitation-request',
        message: 'Please provide inputs for the following fields:',
      });
      if (asked.mode === 'form') expect(asked.fields.map(({ kind }) => kind)).toContain('choices');
      person.answer({ action: 'accept', content: { name: 'Ann', check: true } });
      const raw = JSON.parse(textOf(await form, 2).replace('Raw result:', ''));
      expect(raw).toMatchObject({
        action: 'accept',
        content: { name: 'Ann', check: true, integer: 42, untitledMultipleSelectEnum: ['Guitar'] },
      });
      const url = callTool(guest, 'every', 'trigger-url-elicitation', { url: 'https://login.example/x' });
      expect(await person.next()).toMatchObject({ mode: 'url', url: 'https://login.example/x' });
      person.answer({ action: 'accept' });
      expect(JSON.stringify(await url)).toContain('accept');
      expect(textOf(await callTool(guest, 'every', 'get-roots-list'))).toContain(roots[0]?.uri);
    });
  },
);

it('a server of the old era is told nothing by default, and then lists no such tool [elicitation.off]', async () => {
  const host = await openHost([await everything('stdio')]);
  const guest = guestOf(host, { elicit: new Person(accepted).elicit });
  const list = JSON.stringify(await guest.listTools('every', AbortSignal.timeout(45_000)));
  expect(list).toContain('get-sum');
  for (const name of ['trigger-elicitation', 'trigger-url-elicitation', 'get-roots-list']) {
    expect(list).not.toContain(`"${name}`);
  }
});

describe.each(['stdio', 'http'] as const)('a server of the new era over %s', (wire) => {
  it('gets what it asks for before it goes on, and its state back [elicitation.ask] [elicitation.roots]', async () => {
    const host = await openHost([featured(await bothEras(wire))]);
    const person = new Person();
    const guest = guestOf(host, { elicit: person.elicit });
    const answer = callTool(guest, 'both', 'ask', { what: ['form', 'url', 'roots'] });
    expect(await person.next()).toMatchObject({ mode: 'form', message: 'Sure?', tool: 'ask' });
    person.answer({ action: 'accept', content: {} });
    expect(await person.next()).toMatchObject({ mode: 'url', url: 'https://login.example/start' });
    person.answer({ action: 'decline' });
    expect(JSON.parse(textOf(await answer))).toEqual({
      form: { action: 'accept', content: { sure: true } },
      url: { action: 'decline' },
      roots: { roots: [{ uri: 'file:///srv/notes', name: 'notes' }, { uri: 'file:///tmp' }] },
    });
  });

  it('gets nothing that its record does not permit, and the error says so [elicitation.off]', async () => {
    const host = await openHost([featured(await bothEras(wire), { elicitation: ['url'] })]);
    const person = new Person({ action: 'accept' });
    const guest = guestOf(host, { elicit: person.elicit });
    const { error } = await callTool(guest, 'both', 'ask', { what: ['form'] });
    // One that keeps to the protocol does not even ask.
    expect(error).toMatchObject({ code: 'mcp_tool_error', message: expect.stringContaining('client_features') });
    expect(outcome(await callTool(guest, 'both', 'ask', { what: ['roots'] }))).toBe('mcp_tool_error');
    expect(person.asked).toEqual([]);
    expect(outcome(await callTool(guest, 'both', 'ask', { what: ['url'] }))).toBe('ok');
  });
});

describe('what a server asks during a call', () => {
  const record = (budgets: Record<string, number> = {}) => stdioRecord('asker', 'questions.mjs', { budgets });
  const named = {
    message: 'Who?',
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  };

  it('is in the trail and counted, without what was asked and answered [elicitation.audit]', async () => {
    const host = await openHost([featured(record())]);
    const guest = guestOf(host, { elicit: new Person(accepted).elicit, decidedBy: 'test' });
    expect(JSON.parse(textOf(await callTool(guest, 'asker', 'name')))).toEqual({ result: accepted });
    const url = {
      params: { mode: 'url', message: 'Log in.', url: 'https://a.example:8443/x?secret=1', elicitationId: '1' },
    };
    await callTool(guest, 'asker', 'ask', url);
    const about = { server_id: 'asker', session_id: 'mcp-1000', run: 'run-1', request_id: expect.any(String) };
    expect(host.told('elicitation.asked')).toMatchObject([
      { ...about, tool_name: 'name', mode: 'form', host: null },
      { ...about, tool_name: 'ask', mode: 'url', host: 'a.example:8443' },
    ]);
    expect(host.told('elicitation.answered')).toMatchObject([
      { ...about, tool_name: 'name', mode: 'form', action: 'accept', decided_by: 'test', reason: null },
      { ...about, tool_name: 'ask', mode: 'url', action: 'accept', decided_by: 'test' },
    ]);
    const lines = JSON.stringify([host.told('elicitation.asked'), host.told('elicitation.answered')]);
    for (const text of ['Ann', 'Who?', 'secret=1']) expect(lines).not.toContain(text);
  });

  it('is declined where nobody answers, and that is said once [elicitation.no-user]', async () => {
    const host = await openHost([featured(record())]);
    const guest = guestOf(host, { decide: () => 'allow_session' });
    for (let time = 0; time < 2; time++) {
      expect(JSON.parse(textOf(await callTool(guest, 'asker', 'name')))).toEqual({ result: { action: 'decline' } });
    }
    expect(refusals(host)).toEqual([
      'server "asker" requested user input and received "decline": no user is available to answer',
    ]);
    expect(host.told('elicitation.asked')).toEqual([]);
    expect(host.told('elicitation.answered')[0]).toMatchObject({ action: 'decline', decided_by: 'nobody' });
  });

  it('is refused where its record does not permit it, and the log names the field [elicitation.off]', async () => {
    const host = await openHost([record()]);
    const guest = guestOf(host, { elicit: new Person(accepted).elicit });
    const ask = async (method: string, params: object = {}) =>
      JSON.parse(textOf(await callTool(guest, 'asker', 'ask', { method, params })));
    expect(await ask('elicitation/create', named)).toMatchObject({ error: { code: -32601 } });
    expect(await ask('roots/list')).toMatchObject({ error: { code: -32601 } });
    expect(await ask('sampling/createMessage')).toMatchObject({ error: { code: -32601 } });
    expect(refusals(host)).toEqual([
      expect.stringContaining('client_features.elicitation'),
      expect.stringContaining('client_features.roots'),
      expect.stringContaining('sampling'),
    ]);
    await host.upsert(featured(record(), { elicitation: ['url'] }));
    expect(await ask('elicitation/create', named)).toMatchObject({ error: { code: -32602 } });
  });

  it('is declined for a secret in a form, whoever answers [elicitation.secrets]', async () => {
    const host = await openHost([featured(record())]);
    const person = new Person({ action: 'accept', content: { password: 'hunter2', v: 'hunter2' } });
    const guest = guestOf(host, { elicit: person.elicit });
    for (const properties of [{ password: { type: 'string' } }, { v: { type: 'string', title: 'Your API key' } }]) {
      const params = { message: 'Log in.', requestedSchema: { type: 'object', properties } };
      const answer = await callTool(guest, 'asker', 'ask', { params });
      expect(JSON.parse(textOf(answer))).toEqual({ result: { action: 'decline' } });
    }
    expect(person.asked).toEqual([]);
    const said = (name: string) =>
      expect.stringContaining(`the form asks for "${name}": secrets must not be entered in a form`);
    expect(refusals(host)).toEqual([said('password'), said('v')]);
  });

  it('is shown to nobody where it is too large, or none [elicitation.bounds]', async () => {
    const host = await openHost([featured(record())]);
    const person = new Person(accepted);
    const guest = guestOf(host, { elicit: person.elicit });
    const nested = { a: { type: 'object', properties: {} } };
    const hostile = [
      { ...named, message: 'x'.repeat(1_000_000) },
      { message: 'x', requestedSchema: { type: 'object', properties: nested } },
      { message: 'x' },
      { mode: 'url', message: 'x', url: 'http://a.example/', elicitationId: '1' },
    ];
    for (const params of hostile) {
      const answer = await callTool(guest, 'asker', 'ask', { params });
      expect(JSON.parse(textOf(answer))).toMatchObject({ error: { code: -32602 } });
    }
    expect(person.asked).toEqual([]);
    expect(refusals(host)).toHaveLength(hostile.length);
  });

  it('is declined where the answer does not fit, or there is none [elicitation.schema]', async () => {
    const host = await openHost([featured(record())]);
    const answers: [unknown, string][] = [
      [{ action: 'accept', content: {} }, '"name" is required'],
      [{ action: 'accept', content: { name: 7 } }, '"name" must be a string'],
      [{ action: 'accept', content: { name: 'x', more: 1 } }, 'no field "more"'],
      [{ action: 'perhaps' }, 'returned an unknown answer'],
      [new TypeError('secret words'), 'the elicitation handler failed (TypeError)'],
    ];
    const left = answers.map(([answer]) => answer);
    const elicit = async () => {
      const answer = left.shift();
      if (answer instanceof Error) throw answer;
      return answer as typeof accepted;
    };
    const guest = guestOf(host, { elicit });
    for (const [, why] of answers) {
      expect(JSON.parse(textOf(await callTool(guest, 'asker', 'name')))).toEqual({ result: { action: 'decline' } });
      expect(host.told('elicitation.answered').at(-1)?.reason).toContain(why);
    }
  });

  it('is cancelled without an answer in time, and the call goes on [elicitation.deadline]', async () => {
    const host = await openHost([featured(record())]);
    const person = new Person();
    const guest = guestOf(host, { elicit: person.elicit, timeoutMs: 50 });
    expect(JSON.parse(textOf(await callTool(guest, 'asker', 'name')))).toEqual({ result: { action: 'cancel' } });
    expect(person.asked[0]?.signal.aborted).toBe(true);
    expect(host.told('elicitation.answered')[0]).toMatchObject({ action: 'cancel', decided_by: 'nobody' });
  });

  it('takes none of the time of its call, which goes on afterwards [elicitation.clock]', async () => {
    await inEnoughTime(400, async (tool_timeout_ms) => {
      const other = { ...record({ tool_timeout_ms }), server_id: 'other' };
      const host = await openHost([featured(record({ tool_timeout_ms })), other]);
      const person = new Person();
      const guest = guestOf(host, { elicit: person.elicit });
      await callTool(guest, 'asker', 'late');
      const slow = callTool(guest, 'asker', 'name');
      await person.next();
      // As long as the call itself may take.
      expect(outcome(await callTool(guest, 'other', 'hold'))).toBe('mcp_timeout');
      person.answer(accepted);
      expect(JSON.parse(textOf(await slow))).toEqual({ result: accepted });
      const held = callTool(guest, 'asker', 'askThenHold');
      await person.next();
      person.answer(accepted);
      expect(outcome(await held)).toBe('mcp_timeout');
    });
  });

  it('ends with its call: cancelled, revoked, or answered without waiting [elicitation.cancel]', async () => {
    const host = await openHost([featured(record())]);
    const person = new Person();
    const guest = guestOf(host, { elicit: person.elicit });
    const abort = new AbortController();
    const first = callTool(guest, 'asker', 'name', {}, { signal: abort.signal });
    const asked = await person.next();
    abort.abort();
    expect(outcome(await first)).toBe('mcp_cancelled');
    expect(asked.signal.aborted).toBe(true);
    expect(textOf(await callTool(guest, 'asker', 'leave'))).toBe('gone');
    await eventually(() => expect(person.asked.at(-1)?.signal.aborted).toBe(true));
    expect(textOf(await callTool(guest, 'asker', 'late'))).toBe('cancel');
    const seen = person.asked.length;
    const last = callTool(guest, 'asker', 'name');
    await eventually(() => expect(person.asked.length).toBe(seen + 1));
    await host.upsert({ ...featured(record()), allowed_tools: ['late'] });
    expect(outcome(await last)).toBe('mcp_policy_denied');
    expect(person.asked.at(-1)?.signal.aborted).toBe(true);
  });

  it('may be taken back by the server', async () => {
    const host = await openHost([featured(record())]);
    const person = new Person();
    const answer = callTool(guestOf(host, { elicit: person.elicit }), 'asker', 'takeBack');
    await eventually(() => expect(person.asked.at(-1)?.message).toBe('And now?'));
    if (person.asked.length > 1) expect(person.asked[0]?.signal.aborted).toBe(true);
    for (const _ of person.asked) person.answer({ action: 'decline' });
    expect(textOf(await answer)).toBe('decline');
  });

  it('is asked so often and no more, one call and at one time [elicitation.bounds]', async () => {
    const host = await openHost([featured(record())]);
    const person = new Person({ action: 'decline' });
    const guest = guestOf(host, { elicit: person.elicit });
    const times = MAX_QUESTIONS_PER_CALL + 20;
    const said = textOf(await callTool(guest, 'asker', 'endless', { times })).split(' ');
    expect(said).toEqual([...Array(MAX_QUESTIONS_PER_CALL).fill('decline'), ...Array(20).fill('cancel')]);
    expect(person.asked).toHaveLength(MAX_QUESTIONS_PER_CALL);
    expect(refusals(host)).toHaveLength(1);
  });

  it('is asked so many things at one time and no more [elicitation.bounds]', async () => {
    const host = await openHost([featured(record())]);
    const person = new Person();
    const guest = guestOf(host, { elicit: person.elicit });
    const file = join(newFolder(), 'answered');
    const answer = callTool(guest, 'asker', 'atOnce', { times: 100, file });
    // None is answered before all have come: a place that is free again is given away again.
    await eventually(() => expect(linesIn(file)).toEqual(Array(100 - MAX_OPEN_QUESTIONS).fill('cancel')));
    expect(person.asked).toHaveLength(MAX_OPEN_QUESTIONS);
    for (const _ of person.asked) person.answer({ action: 'decline' });
    const said = textOf(await answer).split(' ');
    expect(said.filter((action) => action === 'decline')).toHaveLength(MAX_OPEN_QUESTIONS);
    expect(refusals(host)).toHaveLength(1);
  });

  it('is declined where it cannot be told during which call it is asked [elicitation.which]', async () => {
    const host = await openHost([featured(record({ max_concurrency: 2 }))]);
    const person = new Person(accepted);
    const guest = guestOf(host, { elicit: person.elicit });
    const abort = new AbortController();
    const held = callTool(guest, 'asker', 'hold', {}, { signal: abort.signal });
    await eventually(() => expect(host.told('tool_call.started')).toHaveLength(1));
    expect(JSON.parse(textOf(await callTool(guest, 'asker', 'name')))).toEqual({ result: { action: 'decline' } });
    expect(refusals(host)[0]).toContain('max_concurrency');
    abort.abort();
    await held;
    expect(JSON.parse(textOf(await callTool(guest, 'asker', 'name')))).toEqual({ result: accepted });
  });

  it('is answered by a function of a program [elicitation.library]', async () => {
    const transport = { kind: 'stdio', command: process.execPath, args: [fixture('questions.mjs')] } as const;
    const box = new McpToolbox({
      servers: [
        { name: 'asker', transport, clientFeatures: { elicitation: ['form'], roots: [{ uri: 'file:///srv' }] } },
      ],
      elicit: ({ server, tool }) => ({ action: 'accept', content: { name: `${tool} of ${server}` } }),
    });
    onTestFinished(() => box.disconnect());
    await box.connect();
    const { value } = await box.tool('asker_name').call({});
    expect(JSON.stringify(value)).toContain('name of asker');
    expect(JSON.stringify(await box.tool('asker_ask').call({ method: 'roots/list' }))).toContain('file:///srv');
  });
});
