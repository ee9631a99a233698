import type { McpServerRecord } from '../../server/records/server.ts';
import { approvalMode } from './approval-mode.ts';
import type { ApprovalRules } from './approval-rules.ts';
import { quoted } from './decision.ts';
import { compilePatterns } from './pattern.ts';

/** What stands between an allowed call and its being made; empty: nothing. */
export function approvalNote(record: McpServerRecord, tool: string, rules: ApprovalRules): string[] {
  const mode = approvalMode(record, tool);
  const concerned = rulesAbout(record, tool, rules);
  const denying = concerned.filter(({ verdict }) => verdict === 'deny').map(({ name }) => `may be denied by ${name}`);
  if (mode === 'always') return ['every call needs an approval (approval_policy: always)', ...denying];
  if (mode === 'never') return denying;
  const said = concerned.map(({ name, verdict }) => `${name}: ${verdict}`).join(', ');
  return [`approval_policy: policy, ${said === '' ? 'and no rule matches: every call needs an approval' : said}`];
}

/** Rules whose patterns match; whether their arguments and annotations do is known only at a call. */
function rulesAbout(
  record: McpServerRecord,
  tool: string,
  rules: ApprovalRules,
): { readonly name: string; readonly verdict: string }[] {
  return (['node', 'task'] as const).flatMap((layer) =>
    rules[layer]
      .filter(({ servers, tools }) => compilePatterns(servers)(record.server_id) && compilePatterns(tools)(tool))
      .map(({ name, verdict }) => ({ name: `${quoted(name)} of the ${layer}'s rules`, verdict })),
  );
}
