import { z } from 'zod';
import { isSecretReference, SECRET_REFERENCE_HELP } from '../server/secrets/secret.ts';
import { strictTable } from './strict-table.ts';
import { plainName } from './task/schema.ts';

const secretReference = z.string().refine(isSecretReference, SECRET_REFERENCE_HELP);

const fields = {
  creds: secretReference.optional(),
  ca: z.string().min(1).optional(),
  cert: z.string().min(1).optional(),
  key: z.string().min(1).optional(),
  plain_text: z.boolean().optional(),
  replicas: z.int().min(1).max(5).optional(),
  patience_ms: z.int().min(1_000).max(3_600_000).optional(),
  submit_timeout_ms: z.int().min(100).max(600_000).optional(),
};

/** `[nats]` of a node: how the queue of its cluster is reached. */
export const natsTable = strictTable(fields);

/** That of a registry, which may have an account for each of several namespaces. */
export const smsNatsTable = strictTable({ ...fields, accounts: z.record(plainName, secretReference).optional() });
