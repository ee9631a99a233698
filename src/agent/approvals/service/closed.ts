import { startOf } from '../../../base/cut-text.ts';
import { canonicalJson, type JsonObject } from '../../../base/json.ts';
import { redactArguments } from '../../../server/audit/redact-arguments.ts';
import type { Approval } from '../../../server/records/approval.ts';
import { shortenArguments } from '../shown-arguments.ts';

/** Thousands of closed requests are kept: of one, arguments and definition have so much room each. */
const KEPT_BYTES = 16 * 1024;
const KEPT_DESCRIPTION_CHARS = 1_000;

/** A request of which nothing more becomes: what would have been sent is kept whole only for as long as it may be. */
export function closed(approval: Approval, status: Approval['status']): Approval {
  return {
    ...approval,
    status,
    arguments: keptArguments(approval.arguments),
    definition: keptDefinition(approval.definition),
  };
}

function keptArguments(args: JsonObject): JsonObject {
  const { value } = shortenArguments(args);
  return fits(value) ? value : (redactArguments(args) ?? {});
}

function keptDefinition(definition: JsonObject): JsonObject {
  if (fits(definition)) return definition;
  const { name = '', description = '' } = definition;
  return { name, description: startOf(String(description), KEPT_DESCRIPTION_CHARS) };
}

const fits = (value: JsonObject) => Buffer.byteLength(canonicalJson(value)) <= KEPT_BYTES;
