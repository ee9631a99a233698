import type { ChatBackend } from '../src/chat/backend.ts';
import { runGuest } from '../src/guest/run.ts';
import { sendingGuest } from './loop-module.ts';

/** Answers at once, so that what is left is the way there and back. */
const instantBackend: ChatBackend = {
  name: 'instant',
  model: 'instant',
  complete: async () => ({
    choices: [{ finish_reason: 'stop', index: 0, message: { content: 'Fine.', role: 'assistant' } }],
    model: 'instant',
    object: 'chat.completion',
  }),
  close: async () => {},
};

/** Microseconds of one blocking `cchat_send` from a guest thread through the port and back. */
export async function measureSends(sends: number): Promise<number> {
  const { reason, durations, chat, message } = await runGuest({
    wasm: sendingGuest(sends),
    backend: async () => instantBackend,
  });
  if (reason !== 'exit' || chat.sends !== sends) throw new Error(`the sending guest ended with ${reason}: ${message}`);
  return (durations.run_ms * 1000) / sends;
}
