import type { Approval, DefinitionChange } from '../../../server/records/approval.ts';
import type { RegistryListing } from '../../../server/records/record-kind.ts';
import { hashDefinition, readDefinition } from '../../policy/definition-hash.ts';
import { definitionChanges } from '../definition-difference.ts';

type Asked = Pick<Approval, 'namespace' | 'server_id' | 'kind' | 'tool_name' | 'definition' | 'definition_sha256'>;

/** What is different from the definition of the same tool that was last allowed in this namespace. */
export function lastAllowed({ records }: RegistryListing<Approval>, asked: Asked): readonly DefinitionChange[] {
  let last: Approval | null = null;
  for (const approval of records) {
    const same = (['namespace', 'server_id', 'kind', 'tool_name'] as const).every(
      (field) => approval[field] === asked[field],
    );
    const allowed = approval.decision !== null && approval.decision !== 'deny';
    if (same && allowed && (approval.decided_at_ms ?? 0) >= (last?.decided_at_ms ?? 0)) last = approval;
  }
  if (last === null || last.definition_sha256 === asked.definition_sha256) return [];
  // One that was cut when its request was closed is known by its hash alone.
  if (hashDefinition(readDefinition(last.definition)) !== last.definition_sha256) {
    return [
      { path: 'definition', before: `sha256 ${last.definition_sha256}`, after: `sha256 ${asked.definition_sha256}` },
    ];
  }
  return definitionChanges(readDefinition(last.definition), readDefinition(asked.definition)).map(withoutHoles);
}

/** JSON has no undefined. */
function withoutHoles({ path, before, after }: DefinitionChange): DefinitionChange {
  return { path, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) };
}
