import { z } from 'zod';
import { type CheckedDocument, checkDocument, strictTable } from '../../../config/document.ts';

/** Above any delay that a demo or a test needs. */
const MAX_DELAY_MS = 600_000;

const pattern = z.string().superRefine((source, context) => {
  try {
    new RegExp(source, 'u');
  } catch (error) {
    context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : 'invalid pattern' });
  }
});

const contentMatcher = z.union([z.string(), strictTable({ contains: z.string() }), strictTable({ matches: pattern })], {
  error: 'expected a string, {"contains": "…"} or {"matches": "…"}',
});

const when = strictTable({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']).optional(),
  content: contentMatcher.optional(),
  tool_call_id: z.string().optional(),
  messages: z.int().min(1).optional(),
  tools: z.array(z.string().min(1)).min(1).optional(),
  no_tools: z.literal(true).optional(),
}).refine((matchers) => matchers.tools === undefined || matchers.no_tools === undefined, {
  error: '"tools" and "no_tools" cannot be combined',
});

const toolCall = strictTable({
  id: z.string().min(1),
  name: z.string().min(1),
  arguments: z.union([z.string(), z.record(z.string(), z.json())], { error: 'expected an object or a string' }),
});

const reply = strictTable({
  content: z.string().optional(),
  tool_calls: z
    .array(toolCall)
    .min(1)
    .refine((calls) => new Set(calls.map((call) => call.id)).size === calls.length, {
      error: 'two tool calls have the same id',
    })
    .optional(),
  usage: strictTable({
    prompt_tokens: z.int().min(0),
    completion_tokens: z.int().min(0),
    total_tokens: z.int().min(0),
  }).optional(),
}).refine((answer) => answer.content !== undefined || answer.tool_calls !== undefined, {
  error: 'needs "content", "tool_calls" or both',
});

const turn = strictTable({
  when: when.optional(),
  reply: reply.optional(),
  error: strictTable({ status: z.int().min(400).max(599), message: z.string() }).optional(),
  delay_ms: z.int().min(0).max(MAX_DELAY_MS).optional(),
  repeat: z.boolean().optional(),
}).refine((one) => (one.reply === undefined) !== (one.error === undefined), {
  error: 'needs exactly one of "reply" and "error"',
});

const script = strictTable({ model: z.string().min(1).optional(), turns: z.array(turn).min(1) });

export type Script = z.infer<typeof script>;
export type ScriptTurn = z.infer<typeof turn>;
export type ScriptMatchers = z.infer<typeof when>;
export type ScriptReply = z.infer<typeof reply>;

export const checkScript = (file: string, parsed: unknown): CheckedDocument<Script> =>
  checkDocument(script, file, parsed);
