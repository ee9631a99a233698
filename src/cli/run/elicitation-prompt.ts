import type {
  ElicitationAnswer,
  ElicitationDecider,
  ElicitationRequest,
} from '../../agent/mcp/client/elicitation/decider.ts';
import type { FormField } from '../../agent/mcp/client/elicitation/form.ts';
import type { FormContent, FormValue } from '../../agent/mcp/client/elicitation/form-values.ts';
import { Conversation, ConversationEnded } from './conversation.ts';
import { describeContent, describeField, describeQuestion, readEntry } from './elicitation-text.ts';
import { type PromptPorts, PromptTurns } from './prompt-terminal.ts';

/** Of one form, before it is given up. */
export const MAX_WRONG_ENTRIES = 8;

type FormRequest = Extract<ElicitationRequest, { mode: 'form' }>;

const declined: ElicitationAnswer = { action: 'decline' };
const cancelled: ElicitationAnswer = { action: 'cancel' };

/** Asks the user on the terminal what servers request (MCP elicitation), one request at a time. */
export function createElicitationPrompt(ports: PromptPorts, turns = new PromptTurns()): ElicitationDecider {
  return (request) =>
    turns.take(async (waiting) => {
      if (request.signal.aborted) return cancelled;
      let terminal: ReturnType<PromptPorts['open']>;
      try {
        terminal = ports.open();
      } catch {
        return declined; // no terminal
      }
      const conversation = new Conversation(terminal, ports, request.signal);
      try {
        return await answer(conversation, request, waiting);
      } catch (error) {
        if (error instanceof ConversationEnded) return cancelled;
        throw error;
      } finally {
        conversation.close();
        terminal.close();
      }
    });
}

async function answer(
  conversation: Conversation,
  request: ElicitationRequest,
  waiting: number,
): Promise<ElicitationAnswer> {
  const more = waiting === 0 ? '' : ` (${waiting} more after this one)`;
  const title = `spear-run: a server asks for input during a tool call${more}`;
  conversation.say(['', title, ...describeQuestion(request, conversation)]);
  const seconds = Math.max(0, Math.round((request.deadlineMs - Date.now()) / 1_000));
  const no = { n: 'declined', c: 'cancelled' } as const;
  if (request.mode === 'url') {
    const question = `spear-run: d when done, n to decline, c to cancel (${seconds} s): `;
    const key = await conversation.key(question, { d: 'done', ...no });
    return key === 'd' ? { action: 'accept' } : key === 'n' ? declined : cancelled;
  }
  const question = `spear-run: y to fill it in, n to decline, c to cancel (${seconds} s): `;
  const key = await conversation.key(question, { y: 'yes; Ctrl-D declines', ...no });
  return key === 'y' ? fillIn(conversation, request) : key === 'n' ? declined : cancelled;
}

async function fillIn(conversation: Conversation, request: FormRequest): Promise<ElicitationAnswer> {
  const attempts = { left: MAX_WRONG_ENTRIES };
  for (;;) {
    const content = await readForm(conversation, request, attempts);
    if (!('content' in content)) return content;
    conversation.say(describeContent(content.content, conversation));
    const answers = { y: 'sent', e: 'edit', n: 'declined' } as const;
    const key = await conversation.key('spear-run: send it? y, e to edit, n to decline: ', answers);
    if (key !== 'e') return key === 'y' ? { action: 'accept', ...content } : declined;
  }
}

async function readForm(
  conversation: Conversation,
  { fields }: FormRequest,
  attempts: { left: number },
): Promise<{ readonly content: FormContent } | ElicitationAnswer> {
  const content: [string, FormValue][] = [];
  for (const [index, field] of fields.entries()) {
    conversation.say(describeField(field, `${index + 1} of ${fields.length}`, conversation));
    const entry = await readField(conversation, field, attempts);
    if ('action' in entry) return entry;
    if (entry.value !== null) content.push([field.name, entry.value]);
  }
  return { content: Object.fromEntries(content) };
}

async function readField(
  conversation: Conversation,
  field: FormField,
  attempts: { left: number },
): Promise<{ readonly value: FormValue | null } | ElicitationAnswer> {
  for (;;) {
    const typed = await conversation.line('> ');
    if (typed === null) return declined;
    const entry = readEntry(field, typed);
    if ('value' in entry) return entry;
    attempts.left -= 1;
    if (attempts.left === 0) {
      conversation.say([`spear-run: cancelled after ${MAX_WRONG_ENTRIES} invalid entries`]);
      return cancelled;
    }
    conversation.say([`spear-run: the value ${entry.problem}`]);
  }
}
