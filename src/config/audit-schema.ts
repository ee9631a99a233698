import { z } from 'zod';
import { isSecretReference, SECRET_REFERENCE_HELP } from '../server/secrets/secret.ts';
import { argumentForms, auditFailureModes, auditLimitSpecs } from './host/audit.ts';
import { strictTable } from './strict-table.ts';

const file = z.string().min(1).optional();
const { max_bytes: maxBytes, keep } = auditLimitSpecs;

/** What `[audit]` of a node and of a registry have in common. */
const common = {
  max_bytes: z.int().min(maxBytes.min).max(maxBytes.max).optional(),
  keep: z.int().min(keep.min).max(keep.max).optional(),
  on_failure: z.enum(auditFailureModes).optional(),
  key: z.string().refine(isSecretReference, SECRET_REFERENCE_HELP).optional(),
};

/** The trail of every run on this node. */
export const auditTable = strictTable({ file, args: z.enum(argumentForms).optional(), ...common });

/** The trail of a registry. */
export const smsAuditTable = strictTable({ enabled: z.boolean().optional(), file, ...common });
