import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import type { ModelEvent } from '../../src/agent/chat/model-event.ts';
import { runGuest } from '../../src/run/run-guest.ts';
import { scripted } from '../support/chat-host.ts';

const wasm = readFileSync(fileURLToPath(new URL('../../fixtures/c/chat.wasm', import.meta.url)));

it('onModelEvent is told what happens in the sends of a guest that does not stream [library.model-events]', async () => {
  const told: [ModelEvent, string][] = [];
  const printed: Buffer[] = [];
  const backend = await scripted([{ reply: { content: 'two words' } }]);
  const { exitCode } = await runGuest({
    wasm,
    backend,
    output: (_stream, bytes) => void printed.push(Buffer.from(bytes)),
    onModelEvent: (event, session) => void told.push([event, session]),
  });
  expect({ exitCode, printed: Buffer.concat(printed).toString() }).toEqual({ exitCode: 0, printed: 'two words\n' });
  expect(told.map(([event]) => event).filter(({ type }) => type !== 'usage')).toEqual([
    { type: 'text', text: 'two ' },
    { type: 'text', text: 'words' },
    { type: 'end', finish_reason: 'stop' },
  ]);
  expect(new Set(told.map(([, session]) => session))).toEqual(new Set(['chat-1000']));
});
