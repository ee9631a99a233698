import { createHmac } from 'node:crypto';

/** What the lines of a chain are signed with. */
export interface AuditKey {
  readonly id: string;
  readonly bytes: Uint8Array;
}

const ID_CHARS = 16;

/** The key of a text. Its id is the same for the same text, and does not give it away. */
export function auditKey(text: string): AuditKey {
  const bytes = new TextEncoder().encode(text);
  const id = createHmac('sha256', bytes).update('the id of a key of a spear trail').digest('hex').slice(0, ID_CHARS);
  return Object.freeze({ id, bytes });
}
