/** The registry's configuration cannot be used. The message names the flag, variable or field, and what to do. */
export class SmsConfigError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SmsConfigError';
  }
}
