import { looksLikeCredential } from '../server/records/record-credentials.ts';
import { Secret } from '../server/secrets/secret.ts';

/** The value of a header: a title or a version is kept from messages about its receiver, but is no secret to the rest of the host. */
export function headerSecret(header: string, value: string): Secret {
  return looksLikeCredential(header, value)
    ? new Secret(value, [value, value.replace(/^\S+ +/, '')])
    : new Secret(value, []);
}
