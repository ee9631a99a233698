import type { StandardSchemaV1 } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject } from '../../../base/json.ts';

/** Our own deadlines decide; the library's timer must never come first. */
export const NO_LIBRARY_TIMEOUT_MS = 2 ** 31 - 1;

// The library would refuse a whole tools/list for one odd tool, so results are taken as they are and judged here.
export const anyObject: StandardSchemaV1<unknown, JsonObject> = {
  '~standard': {
    version: 1,
    vendor: 'spear',
    validate: (value) => (isJsonObject(value) ? { value } : { issues: [{ message: 'not an object' }] }),
  },
};
