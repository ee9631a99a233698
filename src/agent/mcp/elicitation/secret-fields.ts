import type { FormField } from '../client/elicitation/form.ts';

// A guess by what a field is called. It errs towards no: what is secret goes to an address (url), not through here.

const secretText =
  /\b(?:passwords?|passwd|passphrases?|passcodes?|pwd|secrets?|token|credentials?|api ?keys?|(?:access|private|secret|signing|encryption|ssh|recovery) ?keys?|(?:seed|recovery) (?:phrases?|codes?)|mnemonic|bearer|cookie|authorization|(?:session|connection) (?:id|string))\b/;
/** Those that are written as a number too. */
const secretNumber =
  /\b(?:pin|otp|totp|mfa|2fa|cvv|cvc|csc|ssn|social security|(?:credit|debit|bank)? ?card ?(?:number|no)|(?:credit|debit) card|(?:one ?time|verification|security|auth|authentication|login) ?(?:code|password)|account number|iban)\b/;
const secretFormats = new Set(['password', 'secret', 'token']);

/** The first field of a form that asks for something secret; null: none does, by what they are called. */
export function secretField(fields: readonly FormField[]): string | null {
  return fields.find(asksForSecret)?.name ?? null;
}

function asksForSecret(field: FormField): boolean {
  if (field.kind !== 'text' && field.kind !== 'number') return false;
  if (field.kind === 'text' && field.format !== null && secretFormats.has(field.format.toLowerCase())) return true;
  const names = [field.name, field.title ?? ''].map(words);
  return names.some((name) => secretNumber.test(name) || (field.kind === 'text' && secretText.test(name)));
}

/** `apiKey`, `API_KEY` and `api-key` are the same words; letters that only look like others are taken for those. */
function words(name: string): string {
  return name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/(?<=\p{Ll})(?=\p{Lu})/gu, ' ')
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .toLowerCase();
}
