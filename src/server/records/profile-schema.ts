import { z } from 'zod';
import { textProblem } from '../../base/text-problem.ts';
import { profileLimits } from './profile.ts';
import { isServerId, serverIdRule } from './record.ts';
import { recordLimits } from './record-limits.ts';
import { checked, list, map, optional, pattern, tag } from './record-schema.ts';

const idProblem = (text: string) => (isServerId(text) ? null : `must be ${serverIdRule}`);
const patterns = z.array(pattern).max(recordLimits.patterns);

export const profileSchema = z.object({
  version: optional(z.literal(1)),
  name: checked(idProblem),
  description: optional(checked((text) => textProblem(text, profileLimits.descriptionChars))),
  server_ids: list(checked(idProblem), profileLimits.serverIds),
  server_tags: list(tag, recordLimits.tags),
  tool_allowlist: optional(patterns),
  tool_denylist: list(pattern, recordLimits.patterns),
  allowed_tools: map(idProblem, patterns, profileLimits.serverIds),
  updated_at_ms: optional(z.int().min(0)),
  mod_revision: optional(z.int().min(0)),
});

export type ProfileShape = z.output<typeof profileSchema>;
