import type { PendingTurn, RecordedSend } from '../../runtime/durable/journal.ts';
import type { SessionDelta } from '../../runtime/port/port.ts';
import type { ChatHistory, OpenTurn, TurnCall } from './history.ts';

/** What a send left behind in its session, beside what the guest had written: the messages from `before` on. */
export function settledSend({ messages, openTurn }: ChatHistory, before: number): RecordedSend {
  return { messages: messages.slice(before), turn: openTurn === undefined ? null : settledTurn(openTurn) };
}

/** Puts it there again, without asking anybody. */
export function restoreSend(history: ChatHistory, delta: SessionDelta, { messages, turn }: RecordedSend): void {
  history.apply(delta);
  history.messages.push(...messages);
  history.openTurn = turn === null ? undefined : openTurn(turn);
}

function settledTurn({ calls, handedBack, iterations, toolCalls }: OpenTurn): PendingTurn {
  return {
    calls: calls.map(({ id, name, arguments: args, result }) => ({
      id,
      name,
      arguments: args,
      result: result ?? null,
    })),
    handed_back: handedBack.map((call) => calls.indexOf(call)),
    iterations,
    tool_calls: toolCalls,
  };
}

function openTurn({ calls: settled, handed_back, iterations, tool_calls: toolCalls }: PendingTurn): OpenTurn {
  const calls: TurnCall[] = settled.map(({ result, ...call }) => ({ ...call, result: result ?? undefined }));
  const handedBack = handed_back.flatMap((index) => calls[index] ?? []);
  return { calls, handedBack, handedBackAt: performance.now(), iterations, toolCalls };
}
