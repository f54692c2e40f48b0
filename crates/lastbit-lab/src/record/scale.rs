//! How much of an exhibit is computed.

lastbit::named_enum! {
    /// How much to compute.
    pub enum Scale, default Desk {
        /// Seconds: what the tests run.
        Smoke = "smoke",
        /// Minutes at most on a laptop.
        Desk = "desk",
        /// The paper's settings.
        Paper = "paper",
    }
}
