import { beforeAll, describe, expect, it } from 'vitest';
import type { ChatBackend } from '../../src/agent/chat/backend.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { useComponentCache } from '../support/component-cache.ts';
import { useJavaScriptGuests } from '../support/javascript-guest.ts';
import { type FixtureRun, runFixture } from '../support/run-fixture.ts';

const BUILD_MS = 120_000;
const buildJavaScript = useJavaScriptGuests();
const cache = useComponentCache();

/** A fake model that says one thing. */
const modelSaying = (message: JsonObject): ChatBackend => ({
  name: 'fake',
  model: undefined,
  complete: async () => ({ choices: [{ message: { role: 'assistant', ...message } }] }),
  close: async () => {},
});

const part = (text: string) => ({ type: 'text', text });
const refused = 'I will not say that.';

const messages: readonly [what: string, message: JsonObject, shown: string][] = [
  ['a text', { content: 'Yes.' }, 'Yes.'],
  ['parts', { content: [part('Yes, '), part('"it"\n'), part('is.')] }, 'Yes, "it"\nis.'],
  ['parts of which one is no text', { content: [part('Yes'), { type: 'image_url' }, part('.')] }, 'Yes.'],
  ['a refusal', { content: null, refusal: refused }, refused],
  ['a refusal beside no words', { content: '', refusal: refused }, refused],
  ['a refusal as a part', { content: [{ type: 'refusal', refusal: refused }] }, refused],
  ['words beside no refusal', { content: 'Yes.', refusal: null }, 'Yes.'],
];

const guests: readonly [language: string, form: string, path: string | null][] = [
  ['C', 'module', 'c/chat.wasm'],
  ['C', 'component', 'c/chat.component.wasm'],
  ['AssemblyScript', 'module', 'assemblyscript/chat.wasm'],
  ['AssemblyScript', 'component', 'assemblyscript/chat.component.wasm'],
  ['Rust', 'module', 'rust/chat.wasm'],
  ['Rust', 'component', 'rust/chat.component.wasm'],
  ['JavaScript', 'component', null],
];

describe.each(guests)('in %s as a %s', (_language, _form, path) => {
  let guest: string | Uint8Array;
  beforeAll(async () => {
    guest =
      path ??
      (await buildJavaScript(`
        import { Chat, say, task } from './spear.js';
        export const run = task(() => say.info(new Chat().say('user', 'What?').send()));
      `));
  }, BUILD_MS);

  const ask = (message: JsonObject): Promise<FixtureRun> =>
    runFixture(guest, { backend: modelSaying(message), componentCache: cache.directory });

  it.each(messages)('%s of the model can be read [sdk.answers]', async (_what, message, shown) => {
    const { stdout, stderr, exitCode } = await ask(message);
    // What a guest logs is one line: where a line ends in it, a space stands.
    expect({ stdout: stdout.replaceAll('\n', ' '), stderr, exitCode }).toEqual({
      stdout: `${shown.replaceAll('\n', ' ')} `,
      stderr: '',
      exitCode: 0,
    });
  });

  it('a message without any text is no answer [sdk.answers]', async () => {
    const { stdout, stderr, exitCode } = await ask({ content: null });
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 1 });
    expect(stderr).toMatch(/no (?:answer|text) in/);
  });
});
