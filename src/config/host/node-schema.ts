import { z } from 'zod';
import { limitFields } from '../limit-fields.ts';
import { strictTable } from '../strict-table.ts';
import { plainName } from '../task/schema.ts';
import { nodeLimitSpecs } from './node-limits.ts';

const text = z.string().min(1);

const tokens = z.int().min(1).optional();
const namespaceBudgets = strictTable({ tokens_per_day: tokens, tokens_per_caller_per_day: tokens });

/** Who decides about calls that need an approval: the people of the registry, or nobody. */
export const approvers = ['sms', 'deny'] as const;

/** `[node]` of the host's config file. */
export const nodeTable = strictTable({
  listen: text.optional(),
  data: text.optional(),
  name: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, 'expected 1 to 64 letters, digits, ".", "_" or "-"')
    .optional(),
  pool: plainName.optional(),
  queue: text.optional(),
  tls: strictTable({ cert: text, key: text }).optional(),
  allowed_hosts: z.array(text).optional(),
  stream_models: z.boolean().optional(),
  approve: z.enum(approvers).optional(),
  submitters: z.array(strictTable({ name: plainName, namespace: plainName, token_file: text.optional() })).optional(),
  budgets: z.record(plainName, namespaceBudgets).optional(),
  ...limitFields(nodeLimitSpecs),
});

export type NodeDocument = z.infer<typeof nodeTable>;
