import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import type { ModelEvent } from '../../src/agent/chat/model-events.ts';
import { runGuest } from '../../src/run/run-guest.ts';
import { scripted } from '../support/chat-host.ts';

const wasm = readFileSync(fileURLToPath(new URL('../../fixtures/c/chat.wasm', import.meta.url)));

it('onModelEvent receives the events of sends of a guest that does not stream [library.model-events]', async () => {
  const received: [ModelEvent, string][] = [];
  const printed: Buffer[] = [];
  const backend = await scripted([{ reply: { content: 'two words' } }]);
  const { exitCode } = await runGuest({
    wasm,
    backend,
    output: (_stream, bytes) => void printed.push(Buffer.from(bytes)),
    onModelEvent: (event, session) => void received.push([event, session]),
  });
  expect({ exitCode, printed: Buffer.concat(printed).toString() }).toEqual({ exitCode: 0, printed: 'two words\n' });
  expect(received.map(([event]) => event).filter(({ type }) => type !== 'usage')).toEqual([
    { type: 'text', text: 'two ' },
    { type: 'text', text: 'words' },
    { type: 'end', finish_reason: 'stop' },
  ]);
  expect(new Set(received.map(([, session]) => session))).toEqual(new Set(['chat-1000']));
});
