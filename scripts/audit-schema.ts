// Writes the JSON Schema of the audit log from the events in src/server/audit/event-schema.ts.
import { z } from 'zod';
import { AUDIT_VERSION } from '../src/server/audit/event.ts';
import { auditEvents, chainEvents, fieldsAddedLater, lineShape } from '../src/server/audit/event-schema.ts';

const description =
  'One JSON object per line. Fields may be added within a version; none is renamed or removed. The lines of one process form a hash chain: seq counts from 0, prev is the hash of the previous line (64 zeros in the first line), hash is the hex SHA-256 of the bytes of the line without its last member (the hash itself). In a chain whose first line has keyed: true, hash is the HMAC-SHA256 of the same bytes; the key is not stored in the log. A line whose strings or lists were truncated has truncated: true.';

type Definition = (typeof auditEvents)[number] | (typeof chainEvents)[number];

function lineSchema({ scope, description, object }: Definition) {
  const fields: z.ZodRawShape = object.shape;
  const [title = ''] = object.shape.event.values;
  const shape: z.ZodRawShape = { ...fields, v: z.literal(AUDIT_VERSION), ...lineShape(scope, title) };
  const { $schema, required = [], ...schema } = z.toJSONSchema(z.object(shape), { io: 'input', override });
  const isRequired = (name: string) => !fieldsAddedLater.has(shape[name] as z.ZodType);
  return { title, description, ...schema, required: required.filter(isRequired) };
}

/** The format has no bounds of its own for whole numbers, and nothing in it is read-only. */
function override({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  delete jsonSchema.readOnly;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
}

export function auditSchema(): string {
  const oneOf = [...auditEvents, ...chainEvents].map(lineSchema);
  const about = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `Spear audit line, version ${AUDIT_VERSION}`,
    description,
  };
  return `${JSON.stringify({ ...about, oneOf }, null, 2)}\n`;
}
