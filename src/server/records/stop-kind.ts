import { z } from 'zod';
import { textProblem } from '../../base/text-problem.ts';
import { ALL_NAMESPACES, isNamespace } from './permissions.ts';
import { isServerId, type RecordIssue } from './record.ts';
import type { Parsed, RecordKind } from './record-kind.ts';
import { checked, readFields } from './record-schema.ts';
import { effectsOf, type StopRecord, type StopScope, stopEffects, stopLimits, stopScopes } from './stop.ts';
import { isTaskId } from './task-kind.ts';

const idShape = /^[0-9a-f]{8,32}$/;
const nodeShape = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

const ms = z.int().min(0).default(0);
const stopSchema = z.object({
  stop_id: z.string().regex(idShape),
  scope: z.enum(stopScopes),
  name: z.string(),
  effect: z.enum(stopEffects),
  reason: checked((text) => textProblem(text.trim() === '' ? '' : text, stopLimits.reasonChars)),
  created_by: z.string(),
  authority: z.string().default(ALL_NAMESPACES),
  created_at_ms: ms,
  updated_at_ms: ms,
  mod_revision: ms,
});

export const stopKind: RecordKind<StopRecord> = {
  name: 'stop',
  idField: 'stop_id',
  isId: (text) => idShape.test(text),
  mending: (id) => `stop again with "spear stop", then lift this one with "spear stop --lift ${id}"`,
  parse: (input): Parsed<StopRecord> => {
    const read = readFields(stopSchema, input);
    if ('issues' in read) return { ok: false, issues: read.issues };
    const issues = scopeIssues(read.shape);
    if (issues.length > 0) return { ok: false, issues };
    return { ok: true, record: Object.freeze(read.shape), warnings: [] };
  },
};

function scopeIssues({ scope, name, effect }: Pick<StopRecord, 'scope' | 'name' | 'effect'>): RecordIssue[] {
  const issues: RecordIssue[] = [];
  const problem = nameProblem[scope](name);
  if (problem !== null) issues.push({ path: 'name', message: problem });
  if (!effectsOf[scope].includes(effect)) {
    issues.push({ path: 'effect', message: `must be ${effectsOf[scope].join(' or ')} for the scope ${scope}` });
  }
  return issues;
}

const nameProblem: Readonly<Record<StopScope, (name: string) => string | null>> = {
  all: (name) => (name === '' ? null : 'must be empty for the scope all'),
  namespace: (name) => (isNamespace(name) ? null : 'must be the name of a namespace'),
  task: (name) => (isTaskId(name) ? null : 'must be NAMESPACE/NAME of a task'),
  server: (name) => (isServerId(name) ? null : 'must be the id of a server'),
  node: (name) => (nodeShape.test(name) ? null : 'must be the id of a node'),
};
