import { z } from 'zod';
import { textProblem } from '../../base/text.ts';
import { isServerId } from './field-rules.ts';
import { checked, parserOf, stamp, storeStamps } from './fields.ts';
import { ALL_NAMESPACES, isNamespace } from './permissions.ts';
import type { RecordIssue, RecordKind } from './record-kind.ts';
import { effectsOf, type StopRecord, type StopScope, stopEffects, stopLimits, stopScopes } from './stop.ts';
import { isTaskId } from './task.ts';

// Apart from stop.ts, which the console imports: a browser does not load zod.

const idShape = /^[0-9a-f]{8,32}$/;
const nodeShape = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

const stopSchema = z.object({
  stop_id: z.string().regex(idShape),
  scope: z.enum(stopScopes),
  name: z.string(),
  effect: z.enum(stopEffects),
  reason: checked((text) => textProblem(text.trim() === '' ? '' : text, stopLimits.reasonChars)),
  created_by: z.string(),
  authority: z.string().default(ALL_NAMESPACES),
  created_at_ms: stamp,
  ...storeStamps,
});

export const stopKind: RecordKind<StopRecord> = {
  name: 'stop',
  idField: 'stop_id',
  isId: (text) => idShape.test(text),
  repair: (id) => `stop again with "spear stop", then lift this one with "spear stop --lift ${id}"`,
  parse: parserOf(stopSchema, scopeIssues),
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
