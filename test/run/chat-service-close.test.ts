import { expect, it } from 'vitest';
import { noInjectedTools } from '../../src/agent/chat/injected-tools.ts';
import { ChatService } from '../../src/run/chat-service.ts';
import { scripted } from '../support/chat-host.ts';

const AUTO_TOOL_CALL = 2;

it('waits at its end for sends that still unwind, those of closed sessions too', async () => {
  const calls = [{ id: 'a', name: 'mcp.slow.tool', arguments: {} }];
  const backend = await scripted([{ reply: { tool_calls: calls } }]);
  const [called, unwound] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const happened: string[] = [];
  const chat = new ChatService({
    backend: async () => backend,
    tools: {
      inject: async () => ({
        ...noInjectedTools,
        run: async () => {
          called.resolve();
          await unwound.promise;
          happened.push('the tool has unwound');
          return ['{}'];
        },
      }),
    },
    observe: () => ({ toolStarted() {}, toolFinished() {}, limitReached() {}, modelAnswered() {}, failed() {} }),
    onModelEvent: null,
    reply: () => {},
  });
  chat.send(1, 1000, AUTO_TOOL_CALL, { messages: [['user', 'hi']], tools: [], toolResults: [], params: [] });
  await called.promise;
  chat.closeSession(2, 1000);
  const closed = chat.close().then(() => happened.push('closed'));
  await new Promise((resolve) => setImmediate(resolve));
  expect(happened).toEqual([]);
  unwound.resolve();
  await closed;
  expect(happened).toEqual(['the tool has unwound', 'closed']);
});
