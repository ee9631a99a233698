import { describe, expect, it, vi } from 'vitest';
import { openScriptedBackend } from '../../src/agent/chat/backends/scripted.ts';
import { useJavaScriptGuests } from '../support/javascript-guest.ts';
import { runFixture } from '../support/run-fixture.ts';

// Every guest is built first.
vi.setConfig({ testTimeout: 120_000 });

const build = useJavaScriptGuests();
const guest = (body: string) => build(`import { Chat, say, task } from './spear.js';\n${body}`);

const turns = [
  { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'late', arguments: {} }] } },
  { reply: { content: 'done' } },
];
const model = () => openScriptedBackend('scripted', 'model.json', () => JSON.stringify({ turns }));

describe('a promise in JavaScript is refused by name, because nothing after an await would run', () => {
  it('an async task, when it is built [sdk.javascript.async]', async () => {
    await expect(guest('export const run = task(async () => {});')).rejects.toThrow('the task is an async function');
  });

  it('a task that returns a promise [sdk.javascript.async]', async () => {
    const wasm = await guest(`
      const work = async () => { say.info('before'); await null; say.info('after'); };
      export const run = task(() => work());
    `);
    const { exitCode, stdout, stderr } = await runFixture(wasm);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: 'before\n' });
    expect(stderr).toContain('the task returned a promise: ');
    expect(stderr).toContain('leave out async and await');
  });

  it('an async tool, when it is registered [sdk.javascript.async]', async () => {
    const wasm = await guest(`export const run = task(() => new Chat().tool({ name: 'late' }, async () => 1));`);
    const { exitCode, stderr, hostcalls } = await runFixture(wasm);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('the tool late is an async function: ');
    expect(hostcalls).not.toHaveProperty('cchat_write_fn');
  });

  it('a tool that returns a promise, before the model is told anything [sdk.javascript.async]', async () => {
    const wasm = await guest(`
      export const run = task(() => {
        const chat = new Chat().tool({ name: 'late' }, () => Promise.resolve(1));
        say.info(chat.say('user', 'Go.').send());
      });
    `);
    const { exitCode, stdout, stderr, chat } = await runFixture(wasm, { backend: await model() });
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toContain('the tool late returned a promise: ');
    expect(chat.sends).toBe(1);
  });

  it('while a tool that returns nothing has answered [sdk.javascript.async]', async () => {
    const wasm = await guest(`
      export const run = task(() => {
        const chat = new Chat().tool({ name: 'late' }, () => {});
        say.info(chat.say('user', 'Go.').send());
      });
    `);
    const { exitCode, stdout } = await runFixture(wasm, { backend: await model() });
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'done\n' });
  });
});
