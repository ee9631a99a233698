import type { JsonObject } from '../../../base/json.ts';
import { cutText } from '../../../base/text.ts';
import type { ChatBackend, ChatRequest } from '../backend.ts';
import { messageText } from './message-text.ts';

const MAX_ECHO_CHARACTERS = 200;

export interface StubOptions {
  name: string;
  /** Called once, before the first answer, so that nobody takes the stub for a model. */
  onFirstUse?: (() => void) | undefined;
}

/** Answers when no model is configured: always the same answer to the same request. */
export class StubBackend implements ChatBackend {
  readonly name: string;
  readonly model = 'stub';
  #onFirstUse: (() => void) | undefined;

  constructor(options: StubOptions) {
    this.name = options.name;
    this.#onFirstUse = options.onFirstUse;
  }

  async complete(request: ChatRequest, signal: AbortSignal): Promise<JsonObject> {
    signal.throwIfAborted();
    this.#onFirstUse?.();
    this.#onFirstUse = undefined;
    const lastUserText = messageText(request.messages.findLast((message) => message.role === 'user'));
    const content = `[stub] no model is configured; you said: ${cutText(lastUserText, MAX_ECHO_CHARACTERS)}`;
    return {
      choices: [{ finish_reason: 'stop', index: 0, message: { content, role: 'assistant' } }],
      created: 0,
      id: 'stub',
      model: this.model,
      object: 'chat.completion',
      usage: { completion_tokens: 0, prompt_tokens: 0, total_tokens: 0 },
    };
  }

  async close(): Promise<void> {}
}
